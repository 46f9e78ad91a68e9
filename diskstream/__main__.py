"""`python -m diskstream`: the command, where it is not on the path."""

from diskstream.cli import main

main(prog_name="python -m diskstream")
