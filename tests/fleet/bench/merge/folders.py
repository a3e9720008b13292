"""Folders of made-up results for the merge's tests, and ways to damage them."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp
from typing import Any

from tests.fleet.bench.made_up.results import make_measurement

RUN = "point-00-repeat-0"
_KEPT = TemporaryDirectory(prefix="merge-tests-")
"""Goes with the process."""


@cache
def _made(faults: tuple[tuple[str, Any], ...]) -> Path:
    options: dict[str, Any] = {"clients": 4, "requests_per_client": 48, "connections_per_client": 4, "seed": 7}
    options |= dict(faults)
    if "slo" in options:  # given as pairs, so that it can be a key
        options["slo"] = dict(options["slo"])
    return make_measurement(Path(mkdtemp(dir=_KEPT.name)), **options)


def sound(**options: Any) -> Path:
    """A folder that nobody may change."""
    return _made(tuple(sorted(options.items())))


def copied(to: Path, **options: Any) -> Path:
    """A folder of one's own."""
    shutil.copytree(sound(**options), to / "measurement")
    return to / "measurement"


def edit(path: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    """Change a JSON file in place."""
    content = json.loads(path.read_bytes())
    change(content)
    path.write_text(json.dumps(content), encoding="utf-8")


def client(folder: Path, number: int = 1, run: str = RUN) -> Path:
    """One client's result."""
    return folder / run / f"client-{number:03d}.json"


def witness(folder: Path, number: int = 1, run: str = RUN) -> Path:
    """One client's witness."""
    return folder / run / f"client-{number:03d}.witness.json"
