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
    """What CLIENT LIST says of each in our database."""
    text = admin.call("CLIENT", "LIST").decode()
    found = [dict(word.split("=", 1) for word in line.split()) for line in text.splitlines()]
    return [client for client in found if client["db"] == str(DATABASE)]


def until_waiting(admin: Client, *names: str) -> None:
    """Returns once exactly the clients of these names wait for an entry; asks the server, whose turns it lets go by."""
    waiting: list[str] = []
    for _ in range(100_000):
        waiting = sorted(client["name"] for client in clients(admin) if "b" in client["flags"])
        if waiting == sorted(names):
            return
    raise AssertionError(f"{waiting} wait, not {sorted(names)}")


def kill_until_it_waits_again(admin: Client, name: str) -> dict[str, str]:
    """Closes the connections of that name; what the server says of the next one, once it waits for an entry."""
    killed = [client["id"] for client in clients(admin) if client["name"] == name]
    for id in killed:
        assert admin.call("CLIENT", "KILL", "ID", id) == 1
    for _ in range(100_000):
        left = {client["id"]: client for client in clients(admin) if client["name"] == name}
        if not left.keys() & set(killed) and any("b" in client["flags"] for client in left.values()):
            (client,) = left.values()
            return client
    raise AssertionError(f"{name} does not wait again")
