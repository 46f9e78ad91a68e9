"""Who may: AUTH, and ACL as far as there is one user, ``default``, who may do everything."""

import hashlib
import hmac
import secrets

from diskstream.commands.arguments import as_int, c_text
from diskstream.commands.caller import Caller
from diskstream.commands.command_facts import categories_of
from diskstream.commands.help import help_lines
from diskstream.commands.replies import OK, Failure, Map, Reply
from diskstream.commands.table import Command, Table
from diskstream.commands.wire import set_of

__all__ = ["authenticate", "commands", "sign_out"]

_WRONG = "WRONGPASS invalid username-password pair or user is disabled."
_NO_PASSWORD = (
    "ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration "
    "is correct?"
)
# Redis's user is locked out then. Here there is no other who could let it in again, and an empty password lets in all.
_NO_WAY_IN = "ERR the default user is left without a password: name one behind '>', or say 'nopass' to let everybody in"
# In a Redis each of them lets in. Here the last would, and who has another one would be locked out.
_TWO_PASSWORDS = (
    "ERR the default user has one password here, which lets nobody in once there is another: to replace it say "
    "'resetpass' before '>'"
)
_NOT_THAT_ONE = (
    "ERR Error in ACL SETUSER modifier '<...': The password you are trying to remove from the user does not exist"
)
_GRANTS = frozenset({b"on", b"allkeys", b"~*", b"%rw~*", b"allchannels", b"&*", b"allcommands", b"+@all"})


def _password(caller: Caller) -> bytes:
    return caller.keyspace.settings["requirepass"].encode("utf-8", "surrogateescape")


def authenticate(caller: Caller, user: bytes, password: bytes) -> None:
    """Lets a caller in.

    Raises:
        Failure: there is no such user, or the password is another one.
    """
    wanted = _password(caller)
    # By their digests, which are of one length: how long it takes says nothing of how long the password is.
    same = hmac.compare_digest(hashlib.sha256(wanted).digest(), hashlib.sha256(password).digest())
    if user != b"default" or (wanted and not same):
        raise Failure(_WRONG)
    caller.user = "default"


def sign_out(caller: Caller) -> None:
    """Makes a caller what it was when it came."""
    caller.user = None if _password(caller) else "default"


def _auth(caller: Caller, words: list[bytes]) -> Reply:
    if len(words) > 3:  # AUTH user password
        raise Failure("ERR syntax error")
    if len(words) == 2 and not _password(caller):
        raise Failure(_NO_PASSWORD)
    authenticate(caller, words[1] if len(words) == 3 else b"default", words[-1])
    return OK


# --- ACL --------------------------------------------------------------------------------------------------------------


def _who_am_i(caller: Caller, _words: list[bytes]) -> Reply:
    return caller.user


def _users(_caller: Caller, _words: list[bytes]) -> Reply:
    return ["default"]


def _hash(caller: Caller) -> str:
    return hashlib.sha256(_password(caller)).hexdigest()


def _list(caller: Caller, _words: list[bytes]) -> Reply:
    password = f"#{_hash(caller)}" if _password(caller) else "nopass"
    return [f"user default on {password} ~* &* +@all"]


def _get_user(caller: Caller, words: list[bytes]) -> Reply:
    if words[2] != b"default":
        return None
    has = bool(_password(caller))
    return Map(
        [
            ("flags", set_of(["on"] if has else ["on", "nopass"], caller.protocol)),
            ("passwords", [_hash(caller)] if has else []),
            ("commands", "+@all"),
            ("keys", "~*"),
            ("channels", "&*"),
            ("selectors", []),
        ]
    )


def _set_user(caller: Caller, words: list[bytes]) -> Reply:
    if words[2] != b"default":
        raise Failure("ERR there is one user, 'default': no other can be made")
    now = _password(caller)
    passwords, let_in = {now} - {b""}, not now
    for rule in words[3:]:
        if rule.startswith(b">"):
            passwords.add(rule[1:])
            let_in = False
        elif rule.startswith(b"<"):
            if rule[1:] not in passwords:
                raise Failure(_NOT_THAT_ONE)
            passwords.remove(rule[1:])
        elif rule.lower() in (b"nopass", b"resetpass"):
            passwords.clear()
            let_in = rule.lower() == b"nopass"
        elif rule.lower() not in _GRANTS:
            shown = rule[:128].decode("utf-8", "replace")
            raise Failure(f"ERR Error in ACL SETUSER modifier '{shown}': the default user may always do everything")
    if b"" in passwords or not (passwords or let_in):
        raise Failure(_NO_WAY_IN)
    if len(passwords) > 1:
        raise Failure(_TWO_PASSWORDS)
    password = next(iter(passwords), b"")
    text = password.decode("utf-8", "surrogateescape")
    caller.keyspace.settings.put("requirepass", text)
    if caller.host is not None:
        caller.host.set_setting("requirepass", text)
    return OK


def _generate(_caller: Caller, words: list[bytes]) -> Reply:
    if len(words) > 3:
        raise Failure("ERR unknown subcommand or wrong number of arguments for 'GENPASS'. Try ACL HELP.")
    bits = as_int(words[2]) if len(words) > 2 else 256
    if not 1 <= bits <= 4096:
        raise Failure(
            "ERR ACL GENPASS argument must be the number of bits for the output password, a positive number up to 4096"
        )
    return secrets.token_hex(-(-bits // 8))[: -(-bits // 4)]


def _help(_caller: Caller, _words: list[bytes]) -> Reply:
    lines = ["ACL <subcommand> [<arg> ...]. Subcommands are:", "CAT", "GENPASS", "GETUSER", "LIST", "SETUSER", "WHOAMI"]
    return help_lines(lines)


_ADMIN = frozenset({"admin", "noscript", "loading", "stale"})
_ANYONE = frozenset({"noscript", "loading", "stale"})


def commands(table: Table) -> tuple[Command, ...]:
    """The commands; ACL CAT tells of those in `table`."""

    def categories(_caller: Caller, words: list[bytes]) -> Reply:
        every = [command for top in table.values() for command in (*top.subcommands.values(), top)]
        if len(words) == 2:
            return sorted({category.removeprefix("@") for command in every for category in categories_of(command)})
        wanted = f"@{words[2].decode('latin-1').lower()}"
        found = [command.name for command in every if wanted in categories_of(command)]
        if not found:
            raise Failure(b"ERR Unknown category '%s'" % c_text(words[2][:128]))
        return sorted(found)

    def sub(name: str, arity: int, run: object, flags: frozenset[str], summary: str) -> Command:
        assert callable(run)
        return Command(f"acl|{name}", arity, run, flags, group="server", since="6.0.0", summary=summary)

    below = {
        "whoami": sub("whoami", 2, _who_am_i, _ANYONE, "Returns the authenticated username of the connection."),
        "users": sub("users", 2, _users, _ADMIN, "Lists all ACL users."),
        "list": sub("list", 2, _list, _ADMIN, "Dumps the effective rules in ACL file format."),
        "getuser": sub("getuser", 3, _get_user, _ADMIN, "Lists the ACL rules of a user."),
        "setuser": sub("setuser", -3, _set_user, _ADMIN, "Modifies an ACL user and its rules."),
        "cat": sub("cat", -2, categories, _ANYONE, "Lists the ACL categories, or the commands of one."),
        "genpass": sub("genpass", -2, _generate, _ANYONE, "Generates a pseudorandom password."),
        "help": sub(
            "help", 2, _help, frozenset({"loading", "stale"}), "Returns helpful text about the different subcommands."
        ),
    }
    return (
        Command(
            "auth",
            -2,
            _auth,
            _ANYONE | {"fast", "no_auth", "allow_busy"},
            group="connection",
            since="1.0.0",
            summary="Authenticates the connection.",
        ),
        Command(
            "acl", -2, None, group="server", since="6.0.0", summary="A container for ACL commands.", subcommands=below
        ),
    )
