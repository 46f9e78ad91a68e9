"""The benchmarks: diskstream beside what a user would pick instead, interleaved in one run.

``python -m bench --quick`` for a first look, ``python -m bench --json FILE`` for figures worth keeping, and
``python -m bench.render FILE...`` to write docs/performance.md from them.
"""
