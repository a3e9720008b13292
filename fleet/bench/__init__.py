"""The benchmark outside the pods: run, merge, certify, report.

What runs inside the pods is workloads/benchmark/pods; the folder they leave is described in fleet/bench/folder.py.
"""
