"""Bounded resources: every operation in cycles, and what a process and its store hold must not grow with them.

A cycle does operations, and leaves the store as it found it. So whatever is more in the second half of many cycles than
in the first one leaks. Three small objects that stay of a cycle are found, and most operations are done more often.
"""
