"""Modules that some commands need on top, by the file that installs them."""

from __future__ import annotations

from importlib.util import find_spec

FOR_BENCHMARKS = frozenset({"aiohttp", "google", "numpy", "orjson", "requests", "resvg_py", "ttf_opensans"})
"""Top-level modules of requirements-benchmark.txt."""
FOR_REHEARSALS = frozenset({"cryptography", "kubernetes", "trustme", "urllib3"})
"""Modules of requirements-rehearsal.txt."""


def require_benchmark_packages() -> None:
    """What merges and draws is there. Raises ModuleNotFoundError for the first that is not, as its import would an hour later."""
    # Of `google` something is always there: protobuf.
    for name in ("google.auth", "google.cloud", "google.cloud.storage", *sorted(FOR_BENCHMARKS)):
        if find_spec(name) is None:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
