"""Stores as each format version has written them, kept in the repository: whatever is changed must read them still.

`generate` has written what is in `v1/` and is kept to say how; it is not run again for a version that is out.
"""
