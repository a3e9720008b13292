"""The benchmark outside the pods: results merged into one, judged, drawn, and started from a laptop.

What runs inside the pods is workloads/benchmark/pods; the folder they leave is described in fleet/bench/folder.py.
"""
