"""No verb answers bad input with a traceback: it says what is wrong, with the status that the reference names."""

import itertools
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import diskstream
from diskstream.cli import main

# They start servers, other programs, or Spark: their own tests are elsewhere.
ELSEWHERE = {"bench", "completion", "demo", "serve", "spark"}
PROGRAM = "import sys; from diskstream.cli import main; main(sys.argv[1:], prog_name='diskstream')"
BINARY = os.fsdecode(b"na\xffme\n\0"[:-1])


def verbs() -> Iterator[tuple[tuple[str, ...], click.Command]]:
    context = click.Context(main)
    for name in main.list_commands(context):
        command = main.get_command(context, name)
        if name in ELSEWHERE:
            continue
        if isinstance(command, click.Group):
            for each in command.list_commands(context):
                found = command.get_command(context, each)
                assert found is not None
                yield (name, each), found
        elif command is not None:
            yield (name,), command


VERBS = dict(verbs())
ALL = pytest.mark.parametrize("verb", list(VERBS), ids=" ".join)


def words_for(verb: tuple[str, ...], target: Path) -> list[str]:
    """Words with which a verb is well called; options that it cannot do without among them."""
    named = {
        ("add",): ["s", "a=1"],
        ("consumer", "ls"): ["s", "g"],
        ("consumer", "rm"): ["s", "g", "c", "--force"],
        ("count",): ["s"],
        ("del",): ["s", "1-0", "--force"],
        ("export",): ["s"],
        ("group", "claim"): ["s", "g", "d", "--min-idle", "0"],
        ("group", "create"): ["s", "h"],
        ("group", "destroy"): ["s", "g", "--force"],
        ("group", "info"): ["s", "g"],
        ("group", "pending"): ["s", "g"],
        ("group", "set-id"): ["s", "g", "0"],
        ("import",): [str(target / "rows.csv"), "-s", "imported"],
        ("info",): ["s"],
        ("len",): ["s"],
        ("range",): ["s"],
        ("rename",): ["s", "t"],
        ("rm",): ["s", "--force"],
        ("tail",): ["s"],
        ("top",): ["--once", "-i", "50ms"],
        ("trim",): ["s", "--maxlen", "1", "--force"],
    }
    return named.get(verb, [])


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with a store of one stream and group, a file, and another folder."""
    with diskstream.open(tmp_path / "store") as store:
        for number in range(1, 4):
            store.stream("s").add({"n": number}, id=f"{number}-0")
        store.stream("s").create_group("g", "0").consumer("c").read(count=2)
    (tmp_path / "file").write_text("no store", encoding="utf-8")
    (tmp_path / "rows.csv").write_text("a,b\n1,2\n", encoding="utf-8")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thing").write_text("x", encoding="utf-8")
    return tmp_path


def run(verb: tuple[str, ...], words: list[str], directory: Path | str) -> Result:
    result = CliRunner().invoke(main, [*verb, *words, "--dir", str(directory)])
    told(result, (*verb, *words))
    return result


def told(result: Result, words: tuple[str, ...]) -> None:
    """Whatever happened was said in words, with a status that has a meaning."""
    assert result.exception is None or isinstance(result.exception, SystemExit), (words, result.exception)
    assert result.exit_code in (0, 1, 2), (words, result.output)
    assert "Traceback" not in result.output
    if result.exit_code == 2:
        assert "Usage:" in result.stderr
    elif result.exit_code == 1:
        assert "error:" in result.stderr or result.stdout, words


@ALL
def test_well_called_it_works_so_that_what_follows_means_something(verb: tuple[str, ...], place: Path) -> None:
    if words := words_for(verb, place):
        result = run(verb, words, place / "store")
        assert result.exit_code == 0, result.output


@ALL
@pytest.mark.parametrize("wrong", ["missing", "file", "other", "file/below", "\udcff"])
def test_what_is_no_store(verb: tuple[str, ...], wrong: str, place: Path) -> None:
    result = run(verb, words_for(verb, place), place / wrong)
    makes_it = verb[0] in {"add", "import"} and wrong in ("missing", "\udcff")
    assert result.exit_code != 0 or makes_it or "--dir" not in option_names(verb), verb
    if not makes_it:
        assert not (place / "missing").exists()
    assert (place / "file").read_text(encoding="utf-8") == "no store"
    assert [each.name for each in (place / "other").iterdir()] == ["thing"]


def option_names(verb: tuple[str, ...]) -> set[str]:
    return {name for parameter in VERBS[verb].params for name in parameter.opts}


@ALL
def test_names_that_are_not_there_or_cannot_be(verb: tuple[str, ...], place: Path) -> None:
    well = words_for(verb, place)
    if "s" not in well or verb == ("add",):
        return
    for name in (BINARY, "x" * 5000, "", "é" * 200, "nothing", "-" * 3):
        wrong = [name if word == "s" else word for word in well]
        result = run(verb, wrong, place / "store")
        assert result.exit_code != 0, (verb, name)
    with diskstream.open(place / "store", read_only=True) as store:
        assert store.streams() == [b"s"]


_NUMBERS = ["-1", "0", str(2**63), str(2**64), "9" * 400, "1e9", "nan", "1h", "-1h"]
_IDS = ["-", "+", "(", "(0-0", "$", ">", "*", "0-0", "1-1-1", f"{2**64 - 1}-{2**64 - 1}", "2026-01-31", "0000-00-00"]
_WORDS = ["s", "", " ", BINARY, "a=b", "=", "/", "~"]
_ODD = st.one_of(
    st.sampled_from(_NUMBERS + _IDS + _WORDS),
    st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=5),
)
# What would make a verb go on for ever, or write where it must not.
_SPARED = {"directory", "follow", "follows", "output", "help", "interval", "rejects"}


@pytest.fixture(scope="module")
def fixed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("odd")
    with diskstream.open(path / "store") as store:
        store.stream("s").add({"n": 1}, id="1-0")
        store.stream("s").create_group("g", "0")
    (path / "rows.csv").write_text("a,b\n1,2\n", encoding="utf-8")
    return path


@settings(max_examples=250, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(chosen=st.data())
def test_odd_words_in_the_place_of_any_other(
    chosen: st.DataObject, fixed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(fixed)  # for what is taken for the name of a file
    verb = chosen.draw(st.sampled_from([each for each in VERBS if each not in ENDLESS]))
    words = [chosen.draw(st.one_of(st.just(word), _ODD)) for word in words_for(verb, fixed)]
    command = VERBS[verb]
    for option in chosen.draw(st.lists(st.sampled_from(command.params), max_size=2)):
        if isinstance(option, click.Option) and option.name not in _SPARED:
            words += [option.opts[-1]] if option.is_flag else [option.opts[-1], chosen.draw(_ODD)]
    result = CliRunner().invoke(main, [*verb, *words, "--dir", str(fixed / "store")], input="n\n")
    told(result, (*verb, *words))


# Where an odd word may make it wait for what never comes.
ENDLESS = {("top",), ("tail",)}


@pytest.mark.skipif(os.geteuid() == 0, reason="for root everything may be read")
def test_a_store_that_may_not_be_read(place: Path) -> None:
    (place / "store" / "streams").chmod(0)
    try:
        for verb in VERBS:
            assert run(verb, words_for(verb, place), place / "store").exit_code != 0, verb
    finally:
        (place / "store" / "streams").chmod(0o755)


FULL = b"error: could not write to standard output: No space left on device: free some space and try again\n"


def as_process(words: list[str], directory: Path, redirection: str, **extra: str) -> subprocess.CompletedProcess[bytes]:
    line = f'exec "$0" -c "$1" "${{@:2}}" {redirection}'
    environment = {**os.environ, "DISKSTREAM_DIR": str(directory), **extra}
    command = ["bash", "-c", line, sys.executable, PROGRAM, *words]
    return subprocess.run(command, capture_output=True, check=False, env=environment, timeout=60)


@pytest.mark.parametrize(
    ("words", "closed_status"),
    [
        (["--help"], 0),
        (["range", "s"], 1),
        (["ls"], 1),
        (["info", "s", "--json"], 1),
        (["group", "ls"], 1),
        (["verify"], 0),
        (["top", "--once"], 1),
    ],
)
def test_output_that_is_full_closed_or_read_by_nobody(words: list[str], closed_status: int, place: Path) -> None:
    """A verb that does nothing but print has done nothing where there is nowhere to print to."""
    words = [*words, "-i", "50ms"] if "top" in words else words
    full = as_process(words, place / "store", ">/dev/full")
    assert (full.returncode, full.stderr) == (1, FULL)
    closed = as_process(words, place / "store", ">&- 2>&-")
    assert closed.returncode == closed_status
    gone = as_process(words, place / "store", "> >(exec true)")
    assert gone.returncode in (0, 1)
    assert gone.stderr == b""


def test_what_is_printed_without_a_standard_output_goes_into_no_file_of_the_store(place: Path) -> None:
    for number in range(6):
        done = as_process(["add", "s", f"n={number}", "--id", f"9-{number}"], place / "store", "<&- >&- 2>&-")
        assert done.returncode == 0
    with diskstream.open(place / "store", read_only=True) as store:
        assert store.verify().ok
        assert len(store.stream("s")) == 9


@pytest.mark.parametrize(
    "words", [["trim", "s", "--maxlen", "0"], ["rm", "s"], ["backup", "prune", "b", "--keep", "1"]]
)
def test_without_a_standard_input_nobody_is_there_to_answer(
    words: list[str], place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ended with a traceback: click asks no file that is not there."""
    monkeypatch.chdir(place)
    for _ in range(2):
        assert run(("backup", "create"), ["b"], place / "store").exit_code == 0
        with diskstream.open(place / "store") as store:
            store.stream("s").add({"n": "more"})
    closed = as_process(words, place / "store", "<&-")
    empty = as_process(words, place / "store", "</dev/null")
    assert (closed.returncode, closed.stdout, closed.stderr) == (empty.returncode, empty.stdout, empty.stderr)
    assert closed.returncode == 1
    assert b"error: there was no answer, so nothing was done" in closed.stderr
    assert b"hint: --force does it without asking" in closed.stderr


def test_colours_are_for_terminals_and_not_for_all_of_them(place: Path) -> None:
    plain = as_process(["info", "s"], place / "store", "")
    assert b"\x1b[" not in plain.stdout
    failed = as_process(["info", "nothing"], place / "store", "", NO_COLOR="1")
    assert b"\x1b[" not in failed.stderr


@pytest.mark.parametrize(("encoding", "shown"), [("utf-8", "✓"), ("latin-1", "\\u2713")])
def test_what_the_terminal_has_no_letter_for_is_escaped(place: Path, encoding: str, shown: str) -> None:
    with diskstream.open(place / "store") as store:
        store.stream("s").add({"name": "✓"}, id="9-0")
    done = as_process(["range", "s", "9"], place / "store", "", PYTHONIOENCODING=encoding)
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.decode() == f"9-0  name={shown}\n"


@pytest.mark.parametrize("encoding", ["utf-8:strict", "utf-8:surrogateescape"])
def test_what_a_damaged_file_says_is_shown_whatever_it_is(place: Path, encoding: str) -> None:
    """A lone surrogate, which a text of JSON may have and UTF-8 has not, ended `verify` with a Python error."""
    folder = place / "store" / "commits" / ("a" * 64)
    folder.mkdir(parents=True)
    (folder / "1.json").write_text('{"writer": "w", "version": 1, "files": [{"path": "\\ud800"}]}')
    done = as_process(["verify"], place / "store", "", PYTHONIOENCODING=encoding)
    assert (done.returncode, done.stderr.count(b"Traceback")) == (1, 0)
    assert b"it lists \\ud800, which is gone" in done.stdout


@pytest.mark.parametrize("number", ["nan", "inf", "-1", "1e999"])
def test_a_number_that_is_none_is_wrong_usage(number: str) -> None:
    for verb in ("bench", "demo"):
        assert CliRunner().invoke(main, [verb, "--seconds", number]).exit_code == 2


def test_all_verbs_are_looked_at() -> None:
    listed = set(main.list_commands(click.Context(main)))
    assert {verb[0] for verb in VERBS} | ELSEWHERE == listed
    assert list(itertools.chain(*VERBS)) != []


@pytest.mark.parametrize(
    "words",
    [
        ("replay", "s", "--to", "-", "--rate", "inf"),
        ("replay", "s", "--to", "-", "--rate", "nan"),
        ("archive", "--from", "redis://127.0.0.1:1", "--key", "s", "--to", "x", "--rate", "inf"),
        ("import", "x", "--stream", "s", "--encoding", "base64"),
        ("import", "x", "--stream", "s", "--encoding", "rot13"),
        ("import", "x", "--stream", "s", "--encoding", "\udcff"),
        ("archive", "--from", "redis://127.0.0.1:1", "--key", "", "--to", "x"),
        ("archive", "--from", "http://127.0.0.1:1", "--key", "s", "--to", "x"),
        ("replay", "s", "--to", "-", "--where", "bad"),
        ("replay", "s", "--to", "-", "--where", "a=1", "--where", "a~("),
        ("cold", "move", "--to", "elsewhere", "--keep-entries", "1"),
        ("cold", "adopt", "--from", "elsewhere"),
        ("cold", "sweep", "--at", "elsewhere"),
        ("cold", "ls", "--at", "elsewhere"),
        ("retention", "set", "s", "--max-entries", "1", "--to", "elsewhere"),
        ("add", "", "a=1"),
        ("range", "s", "-n", str(2**63)),
        ("serve", "--port", "99999"),
        ("serve", "--appendfsync", "perhaps"),
    ],
)
def test_what_no_verb_can_do_is_wrong_usage(tmp_path: Path, words: tuple[str, ...]) -> None:
    result = CliRunner().invoke(main, list(words), env={"DISKSTREAM_DIR": str(tmp_path / "store")})
    assert result.exit_code == 2, result.output
    assert isinstance(result.exception, SystemExit)
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize("count", [2**63 - 1, 2**63, 10**30])
def test_a_count_is_within_its_range_or_refused(tmp_path: Path, count: int) -> None:
    with diskstream.open(tmp_path / "store") as store:
        store.stream("s").add({"a": 1}, "1-0")
        store.stream("s").group("g", start="0").consumer("c").read()
    for words in (["group", "pending", "s", "g", "-n", str(count)], ["range", "s", "-n", str(count)]):
        result = CliRunner().invoke(main, [*words, "--dir", str(tmp_path / "store"), "--json"])
        assert isinstance(result.exception, SystemExit | None), result.exception
        assert (result.exit_code == 0) == (count < 2**63)


NAMES_LIKE_MARKUP = ("m[/b]", "bin:[x]", "[red]c")


def test_names_with_brackets_are_printed_as_they_are(tmp_path: Path) -> None:
    """A closing tag in a name ended the report of an archive, and other verbs on a terminal, with a traceback."""
    from rich.table import Table

    from diskstream.cli.output import console, error_console

    with diskstream.open(tmp_path / "store") as store:
        for name in NAMES_LIKE_MARKUP:
            store.stream(name).add({"a": 1})
    for words in (["ls"], ["verify"], ["repair", "--force"], ["top", "--once"]):
        result = CliRunner().invoke(main, [*words, "--dir", str(tmp_path / "store")])
        assert isinstance(result.exception, SystemExit | None), result.exception
        if words == ["ls"]:
            assert all(name in result.output for name in NAMES_LIKE_MARKUP)
    for make in (console, error_console):
        made = make()
        with made.capture() as captured:
            table = Table(*NAMES_LIKE_MARKUP)
            table.add_row(*NAMES_LIKE_MARKUP)
            made.print(table, *NAMES_LIKE_MARKUP)
        assert all(captured.get().count(name) == 3 for name in NAMES_LIKE_MARKUP)


@pytest.mark.parametrize(
    "words",
    [
        ["ls", "--dir", ""],
        ["add", "a", "n=1", "--dir="],
        ["backup", "create", "", "--dir", "store"],
        ["backup", "", "--dir", "store"],
        ["backup", "ls", ""],
        ["backup", "verify", ""],
        ["backup", "prune", "", "--keep", "1"],
        ["restore", "backups", "--to", ""],
        ["archive", "redis://127.0.0.1:1", "--to", ""],
        ["demo", "--dir", ""],
    ],
)
def test_an_empty_path_is_not_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    """As of a variable that was not set: `add` made a store where one happened to be, and said an ID."""
    CliRunner().invoke(main, ["add", "a", "n=1", "--dir", str(tmp_path / "store")])
    CliRunner().invoke(main, ["backup", "create", str(tmp_path / "backups"), "--dir", str(tmp_path / "store")])
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    (tmp_path / "here" / "store").symlink_to(tmp_path / "store")
    (tmp_path / "here" / "backups").symlink_to(tmp_path / "backups")
    before = sorted((tmp_path / "here").iterdir())
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 2, done.output
    assert "empty" in done.stderr
    assert sorted((tmp_path / "here").iterdir()) == before


@pytest.mark.parametrize("words", [["verify"], ["repair", "--force"], ["inspect", "s"], ["len", "s"]], ids=" ".join)
def test_a_store_below_a_directory_that_is_no_utf8_is_refused_in_words(tmp_path: Path, words: list[str]) -> None:
    """Verbs that do not open it as the others do ended in a traceback."""
    with diskstream.open(tmp_path / "store") as store:
        store.stream("s").add({"n": 1})
    odd = tmp_path / os.fsdecode(b"n\xff")
    (tmp_path / "store").rename(odd)
    result = CliRunner().invoke(main, [*words, "--dir", str(odd)])
    assert result.exit_code == 1
    assert isinstance(result.exception, SystemExit)
    assert "the path of a store must be UTF-8" in result.stderr
    assert "rename the directory" in result.stderr


@pytest.mark.parametrize(
    "words",
    [
        ["backup", "create", "circle", "--dir", "store"],
        ["backup", "create", "circle/backups", "--dir", "store"],
        ["restore", "backups", "--to", "circle"],
        ["restore", "backups", "--to", "circle/again"],
        ["restore", "backups", "--to", "circle", "--stream", "s"],
        ["export", "s", "--output", "circle", "--format", "csv", "--dir", "store"],
        ["export", "s", "--output", "circle/s.csv", "--dir", "store"],
        ["export", "s", "--output", "circle", "--rows-per-file", "10", "--dir", "store"],
    ],
    ids=" ".join,
)
def test_a_link_that_leads_round_in_a_circle_is_refused_in_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    """Each ended in a traceback: RuntimeError, of `Path.resolve`."""
    monkeypatch.chdir(tmp_path)
    with diskstream.open("store") as store:
        store.stream("s").add({"n": 1})
    assert CliRunner().invoke(main, ["backup", "create", "backups", "--dir", "store"]).exit_code == 0
    Path("circle").symlink_to("circle")
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 1
    assert isinstance(result.exception, SystemExit)
    assert "circle" in result.stderr
    assert sorted(each.name for each in tmp_path.iterdir()) == ["backups", "circle", "store"]
