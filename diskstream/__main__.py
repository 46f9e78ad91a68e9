"""`python -m diskstream`: the command, where it is not on the path."""

from diskstream_command import main

main("python -m diskstream")
