"""Completion in bash: words as the shell reads them, and names as it takes them.

Readline breaks a line at colons too, as names of streams have them, and puts what it is given into the line as it is: a
name that has a blank would be two words, and one that has `$(...)` would be run.
"""

from __future__ import annotations

import os
import re
import shlex
from typing import ClassVar

from click.shell_completion import BashComplete, CompletionItem, add_completion_class

_LINE = "_DISKSTREAM_LINE"
_BREAKS = "_DISKSTREAM_BREAKS"

_SCRIPT = """\
%(complete_func)s() {
    local response completion type value

    response=$(env _DISKSTREAM_LINE="${COMP_LINE:0:COMP_POINT}" _DISKSTREAM_BREAKS="$COMP_WORDBREAKS" \
%(complete_var)s=bash_complete "$1")

    COMPREPLY=()
    while IFS=',' read -r type value; do
        if [[ $type == 'dir' ]]; then
            COMPREPLY=()
            compopt -o dirnames
        elif [[ $type == 'file' ]]; then
            COMPREPLY=()
            compopt -o default
        elif [[ $type == 'plain' ]]; then
            COMPREPLY+=("$value")
        fi
    done <<< "$response"

    return 0
}

%(complete_func)s_setup() {
    complete -o nosort -F %(complete_func)s %(prog_name)s
}

%(complete_func)s_setup;
"""

# Stands for the cursor: what it ends up in is the word that is completed.
_CURSOR = "\0"

# What of COMP_WORDBREAKS a word may have that is not escaped.
_BREAKING = ":=@"

_BARE = re.compile(r"[^\w@%+=:,./-]")
_IN_DOUBLE_QUOTES = re.compile(r'[$`"\\]')


class _Completion(BashComplete):
    """Reads the line up to the cursor, and writes names so that bash takes each as one word."""

    source_template: ClassVar[str] = _SCRIPT
    _quote = ""
    _taken = ""

    def get_completion_args(self) -> tuple[list[str], str]:
        """The words before the one that is completed, and what there is of that."""
        line = os.environ.get(_LINE)
        if line is None:  # a script of a version before
            return super().get_completion_args()
        (*words, last), self._quote = _split(line + _CURSOR)
        incomplete = last.removesuffix(_CURSOR)
        if not self._quote:  # what readline takes for words before this one stays in the line
            breaks = os.environ.get(_BREAKS, "")
            ends = [incomplete.rfind(mark) for mark in _BREAKING if mark in breaks]
            self._taken = incomplete[: 1 + max(ends, default=-1)]
        return words[1:], incomplete

    def format_completion(self, item: CompletionItem) -> str:
        """A line of the script's: what it is, and how it stands in the line."""
        value = str(item.value)
        if item.type != "plain":
            return f"{item.type},{value}"
        if self._quote == "'":
            return f"plain,{value}" if "'" not in value else "none,"
        special = _IN_DOUBLE_QUOTES if self._quote else _BARE
        return "plain," + special.sub(lambda found: "\\" + found[0], value.removeprefix(self._taken))


def _split(line: str) -> tuple[list[str], str]:
    """The words of a line that ends with the cursor, and the quote that it ends within, if it does."""
    for quote in ("", "'"):
        try:
            return shlex.split(line + quote), quote
        except ValueError:
            continue
    return shlex.split(line + '"'), '"'


def register() -> None:
    """Let click complete so in bash."""
    add_completion_class(_Completion)
