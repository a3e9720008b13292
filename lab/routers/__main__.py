"""Measures the routers and writes facts/data/routers.yaml: `python -m lab.routers` (`make bench-routers`), about a quarter of an hour.

On a machine with other work, give it priority (`chrt -r 5`), or processor time is right and latency is not.
"""

from __future__ import annotations

import os
import platform
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

import yaml

from facts import ledger
from facts.files import write_whole
from lab.control_plane import build
from lab.results.result import RehearsalError
from lab.routers import measure, programs

FILE = ledger.DATA_FOLDER / "routers.yaml"
_HEAD = """\
# Routers on loopback, before eight pods of eight ranks that count every token. Written by `make bench-routers`.
# Times in microseconds of processor time; `_ratio`: to a direct connection in the same round.
"""


def main() -> int:
    """Measure everything. Exit code 1 if a part failed."""
    try:
        found = programs.found(build.routers(_progress))
        with tempfile.TemporaryDirectory(prefix="routers-") as folder:
            bench = measure.Bench(found, Path(folder), _progress)
            content = {
                "source": "own-routers",
                "measured": {
                    "date": datetime.now(UTC).date(),
                    "machine": f"{os.cpu_count()} cores, {platform.machine()}, Linux {platform.release()}",
                    "versions": dict(found.versions()),
                },
                "cost": measure.cost(bench),
                "balance": measure.balance(bench),
                "prefixes": measure.prefixes(bench),
                "streams": measure.streams(bench),
                "server_dies": measure.server_dies(bench),
                "router_ends": measure.router_ends(bench),
            }
    except RehearsalError as error:
        _progress(str(error))
        return 1
    write_whole(FILE, (_HEAD + yaml.safe_dump(content, sort_keys=False, width=150)).encode())
    _progress(f"written: {FILE}")
    return 0


def _progress(line: str) -> None:
    sys.stderr.write(line + "\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
