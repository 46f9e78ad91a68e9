"""No parser of the native core is left without a target, and no target without inputs."""

import re
from pathlib import Path

from tests.fuzz import libfuzzer

NATIVE = Path(__file__).resolve().parent.parent.parent / "native"
# A public function that takes bytes or a reader of them: by its name what reads, or whatever a client's bytes reach.
_TAKES_BYTES = re.compile(r"pub fn (\w+)(?:<[^>]*>)?\s*\(([^{;]*?)\)\s*(?:->|\{)", re.DOTALL)
_BYTES = re.compile(
    r"(?::\s*(?:&(?:'a |mut )?\[u8\]|&mut Reader<|&\[&\[u8\]\]|&(?:'a )?Packed|&Block|&Pairs|Bytes<)"
    r"|&\[\(&\[u8\], Bytes<|Item = &'a Packed)"
)

_BYTES = re.compile(
    r"(?::\s*(?:&(?:'a |mut )?\[u8\]|&mut Reader<|&\[&\[u8\]\]|&(?:'a )?Packed|&Block|&Pairs|Bytes<)"
    r"|&\[\(&\[u8\], Bytes<|Item = &'a Packed)"
)

# What takes bytes, and is no parser with a target of its own.
_WITHIN = {
    "audit_rows::kept": "called by Walk::next, in `log`",
    "group_ops::read_name": "called for each name of `records`, `commits`, `settings`, `windows`, `groups`",
    "group_ops::read_optional": "called for each number that may be missing of the same",
    "pending::read_id_step": "called for each row of `pending` and `records`",
    "state::apply": "called for each frame of `log`",
    "tail::applied": "called for each frame of `log`",
    "tail::resume": "called by `begin` in `log`, by `from_copy` in `tail_copy`",
}
_LOOKS_UP_A_NAME = ("block::value", "commits::last", "groups::consumer", "groups::number", "settings::get")
_TAKES_WHAT_WAS_READ = (
    "block::push",
    "error::twice",
    "rows::field",
    "listed::field",
    "settings::check",
    "settings::set",
)
_WRITES = ("group_ops::put_name", "resp_reply::put_simple")
_NO_PARSER = {*_WITHIN, *_LOOKS_UP_A_NAME, *_TAKES_WHAT_WAS_READ, *_WRITES}


def _parsers() -> dict[str, str]:
    found = {}
    for path in sorted((NATIVE / "core" / "src").glob("*.rs")):
        code = path.read_text(encoding="utf-8").partition("#[cfg(test)]\n#[allow")[0]
        for match in _TAKES_BYTES.finditer(code):
            if _BYTES.search(match[2]):
                found[f"{path.stem}::{match[1]}"] = match[1]
    return found


def test_every_function_of_the_core_that_takes_bytes_is_in_a_target() -> None:
    parsers = _parsers()
    assert {"frame::parse_header", "snapshot::decode", "resp::feed", "node::read", "audit::unpack"} <= parsers.keys()
    sources = NATIVE / "fuzz" / "src"
    called = "\n".join(
        path.read_text(encoding="utf-8") for path in sources.glob("*.rs") if path.stem not in ("seeds", "lib")
    )
    left_out = [
        where
        for where, name in parsers.items()
        if where not in _NO_PARSER and not re.search(rf"(?:\.|::|\b){name}\b", called)
    ]
    assert left_out == []
    assert parsers.keys() >= _NO_PARSER  # none is exempt that is not there


def test_every_target_has_few_small_inputs() -> None:
    listed = re.findall(r'^    \("(\w+)", \w+::\w+\),$', (NATIVE / "fuzz/src/lib.rs").read_text(), re.MULTILINE)
    assert listed == sorted(listed) == libfuzzer.targets()
    sizes = {name: [path.stat().st_size for path in (libfuzzer.CORPUS / name).iterdir()] for name in listed}
    assert all(1 <= len(inputs) <= 30 for inputs in sizes.values())
    assert sum(map(sum, sizes.values())) < 500 << 10
