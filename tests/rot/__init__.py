"""Damage to every file that diskstream keeps: what may come of it is right data, an error in words, or a reported gap.

`world` makes small places with a file of every kind, `seen` looks at all that is in them, `damages` changes files,
`subjects` judges what is seen afterwards, `batch` tries many in a process that may die of it. `tests/torture/rot.py`
runs them for as long as one lets it.
"""
