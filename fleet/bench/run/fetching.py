"""Measurements in the bucket: list, progress, download."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from facts import strict_json
from facts.files import write_whole
from fleet.bench.errors import BenchmarkError
from fleet.bench.folder import RUN_FILE
from fleet.bench.run.progress_words import ENDED, state_of
from fleet.clients.side_by_side import side_by_side

if TYPE_CHECKING:
    from fleet.clients.storage import Bucket
    from fleet.jobs.display import State

RUNS: Final = "runs/"
LATEST: Final = "latest"
_PROGRESS: Final = ".progress/pod.json"
_AT_ONCE: Final = 8
"""Requests to the bucket. Assumed."""
SILENT_SECONDS: Final = 120.0
"""Source: the pod writes every 10 s (workloads/benchmark/pods/progress.py); one silent for twelve times as long has ended."""


@dataclass(frozen=True, slots=True)
class Stored:
    """One measurement in the bucket."""

    name: str
    begun: float
    """When its run.json was stored, seconds since 1970 by the bucket's clock."""


def choose(bucket: Bucket, stack: str, wanted: str) -> str:
    """Name of a measurement of this stack: the newest for `latest`. Raises BenchmarkError with the existing ones, and LiveError."""
    if wanted != LATEST:
        if bucket.list_all(f"{RUNS}{wanted}/"):
            return wanted
        raise BenchmarkError(
            f"gs://{bucket.name}/{RUNS} has no measurement {wanted}: {_there_are(_stored(bucket), bucket)}"
        )
    found = _stored(bucket)
    for one in found:
        # Stacks that share a cluster share a bucket.
        if _asked(bucket, one.name).get("stack") == stack:
            return one.name
    raise BenchmarkError(
        f"gs://{bucket.name}/{RUNS} has no measurement of stack {stack}: {_there_are(found, bucket)}. `fleet bench run --stack {stack}` "
        "makes one"
    )


def fetch(
    bucket: Bucket, name: str, folder: Path, progress: Callable[[int, int], None] = lambda _done, _all: None
) -> None:
    """Mirror a measurement into a folder. Raises BenchmarkError where it holds another one, and LiveError."""
    require_own(folder, name)
    # First: it names the measurement even if the rest is interrupted.
    asked = None if (folder / RUN_FILE).is_file() else bucket.read(f"{RUNS}{name}/{RUN_FILE}")
    if asked is not None:
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(folder / RUN_FILE, asked)
    bucket.mirror(f"{RUNS}{name}/", folder, progress=progress)


def require_own(folder: Path, name: str) -> None:
    """The folder is new or this measurement's. Raises BenchmarkError: two in one folder would be merged as one."""
    if not _content(folder, f"of measurement {name}"):
        return
    try:
        found = strict_json.read(folder / RUN_FILE).get("name")
    except (OSError, ValueError, AttributeError):
        found = None
    if found == name:
        return
    holds = f"measurement {found}" if found else "other files"
    raise BenchmarkError(f"--out {folder} holds {holds}; {name} needs a separate folder; pass another --out")


def require_new(folder: Path) -> None:
    """The folder is new or empty. Raises BenchmarkError."""
    if there := _content(folder, "an empty one"):
        raise BenchmarkError(
            f"--out {folder} is not empty ({', '.join(sorted(there)[:3])}): a new measurement needs an empty folder; pass another"
        )


def _content(folder: Path, allowed: str) -> frozenset[str]:
    if folder.exists() and not folder.is_dir():
        raise BenchmarkError(f"--out {folder} is a file; pass a folder, new or {allowed}")
    return frozenset(path.name for path in folder.iterdir()) if folder.is_dir() else frozenset()


def progress_of(bucket: Bucket, name: str) -> dict[str, Any] | None:
    """Last progress report of the pod. Raises LiveError."""
    return _parsed(bucket.read(f"{RUNS}{name}/{_PROGRESS}"))


def going_on(bucket: Bucket, name: str, now: float) -> State | None:
    """State of a measurement whose pod still reports; None when it has ended. Raises LiveError."""
    told = progress_of(bucket, name)
    if told is None or told.get("at", 0.0) < now - SILENT_SECONDS or told.get("state") in ENDED:
        return None
    return state_of(told)


def _parsed(content: bytes | None) -> dict[str, Any] | None:
    try:
        found = strict_json.loads(content or b"")
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _stored(bucket: Bucket) -> list[Stored]:
    """Every measurement with a run.json, newest first."""
    names = bucket.folders(RUNS)

    def begun(name: str) -> Stored | None:
        (file, *_) = bucket.list_all(f"{RUNS}{name}/{RUN_FILE}") or (None,)
        return None if file is None else Stored(name, file.updated.timestamp())

    found = [one for one in side_by_side(begun, names, _AT_ONCE) if one is not None]
    return sorted(found, key=lambda one: one.begun, reverse=True)


def _asked(bucket: Bucket, name: str) -> dict[str, Any]:
    return _parsed(bucket.read(f"{RUNS}{name}/{RUN_FILE}")) or {}


def _there_are(found: list[Stored], bucket: Bucket) -> str:
    if not found:
        return f"it has none (gcloud storage ls gs://{bucket.name}/{RUNS})"
    return "it has " + ", ".join(one.name for one in found[:8]) + (" and older ones" if len(found) > 8 else "")
