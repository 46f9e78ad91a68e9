"""Instruction counts of fixed workloads under callgrind: what a time on a shared machine cannot prove.

``python -m bench.counts`` prints what an operation costs and compares it with the recorded baseline, ``--record``
writes that baseline anew.
"""
