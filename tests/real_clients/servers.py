"""Which server a test talks to, and what it asks of either."""

from dataclasses import dataclass

from tests.server.client import Client

# A Redis server is shared with other tests, which keep their keys in other databases.
DATABASE = 7


@dataclass(frozen=True)
class Target:
    """Where a server listens; `ours` tells diskstream's from a Redis server."""

    port: int
    ours: bool
    host: str = "127.0.0.1"

    @property
    def url(self) -> str:
        return f"redis://{self.host}:{self.port}/{DATABASE}"

    def admin(self) -> Client:
        """A connection beside those of the client under test."""
        client = Client.connected(self.host, self.port)
        client.call("SELECT", DATABASE)
        return client


def clients(admin: Client) -> list[dict[str, str]]:
    """What CLIENT LIST says of each."""
    text = admin.call("CLIENT", "LIST").decode()
    return [dict(word.split("=", 1) for word in line.split()) for line in text.splitlines()]


def until_waiting(admin: Client, *names: str) -> None:
    """Returns once exactly the clients of these names wait for an entry; asks the server, whose turns it lets go by."""
    waiting: list[str] = []
    for _ in range(100_000):
        waiting = sorted(client["name"] for client in clients(admin) if "b" in client["flags"])
        if waiting == sorted(names):
            return
    raise AssertionError(f"{waiting} wait, not {sorted(names)}")
