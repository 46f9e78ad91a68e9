"""Killed processes: a store at work is killed at one system call after the other, or is told there that the disk fails.

`strace` kills at the Nth system call, before it is done. With every call in turn, the one that says "done" among them,
that is each state in which a process can leave a store, but for those between two stores to mapped memory. What is left
is judged by the workload and the model of the crash simulator (tests/crash): a second workload does the same up to
where the dead one came, and must then find what it would have, or one step of the operation under way.
"""
