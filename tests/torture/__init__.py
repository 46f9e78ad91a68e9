"""The torture: programs that break what a store stands on, for as long as one lets them, and look what is left.

`python -m tests.torture` (or `make torture`) runs them; each part is a module that `parts` names, with one function
`run(budget) -> Report`. `render` writes docs/reliability.md from the reports. A short form of each part is a test.
"""
