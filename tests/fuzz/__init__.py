"""Fuzzers: hostile inputs for everything that reads what somebody else wrote, tried for a bounded time from a printed seed.

`python -m tests.fuzz --seconds 60` runs every target of `tests.fuzz.targets`, `--replay FILE` one input that was found.
"""
