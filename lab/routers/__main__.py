"""Compares leastRequest with a choice by the prompt's beginning: `python -m lab.routers` (`make bench-routers`), under ten minutes.

Prints YAML. On a machine with other work processor time holds, and latency does not.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from lab.results.result import RehearsalError
from lab.routers import measure, programs


def main(arguments: list[str] | None = None) -> int:
    """Measure everything. Exit code 1 if a part failed."""
    parser = argparse.ArgumentParser(prog="lab.routers")
    parser.add_argument(
        "--seconds", type=float, default=8.0, help="of each measured run; the default takes under nine minutes"
    )
    seconds = parser.parse_args(arguments).seconds
    try:
        with tempfile.TemporaryDirectory(prefix="routers-") as folder:
            found = programs.programs(Path(folder), _progress)
            bench = measure.Bench(found, Path(folder), _progress, seconds=seconds)
            content = {
                "measured": {
                    "date": datetime.now(UTC).date(),
                    "machine": f"{os.cpu_count()} cores, {platform.machine()}, Linux {platform.release()}",
                    "haproxy": found.version(),
                    "seconds": seconds,
                },
                "cost": measure.cost(bench),
                "prefixes": measure.prefixes(bench),
            }
    except RehearsalError as error:
        _progress(str(error))
        return 1
    yaml.safe_dump(_short(content), sys.stdout, sort_keys=False, width=200, default_flow_style=None)
    return 0


def _short(value: Any) -> Any:
    """Three digits."""
    if isinstance(value, dict):
        return {name: _short(one) for name, one in value.items()}
    return float(f"{value:.3g}") if isinstance(value, float) else value


def _progress(line: str) -> None:
    sys.stderr.write(line + "\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
