"""A crowd of processes on one store, killed, stopped and interrupted at random; a checker reads what all of them noted.

`scene` says what a round is like, `journal` is how each process notes what it does, `supervisor` starts and kills them,
`play` runs a round from its beginning to its survey, and `checker` reads all journals afterwards.
"""
