"""The cache folder of built programs: location, lock, disk space."""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from lab.results.result import RehearsalError

Progress = Callable[[str], None]

OVERRIDE: Final = "VLLM_FLEET_CACHE"
"""Environment variable that replaces ~/.cache/vllm-fleet."""
GIB: Final = 2**30
_WAIT_SECONDS: Final = 0.2
_REMIND_SECONDS: Final = 30.0


def place() -> Path:
    """Path of the cache folder, which may not exist."""
    override = os.environ.get(OVERRIDE)
    user_cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    base = Path(override).expanduser().absolute() if override else Path(user_cache) / "vllm-fleet"
    return base / "control-plane"


def folder() -> Path:
    """The cache folder, created if missing. Raises RehearsalError if that fails."""
    found = place()
    try:
        found.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RehearsalError(
            f"the cache folder {found} cannot be created: {error.strerror}. Set {OVERRIDE} to a writable folder with 5 GB of "
            "free space"
        ) from error
    return found


@contextlib.contextmanager
def locked(cache: Path, progress: Progress) -> Iterator[None]:
    """Exclusive access to the cache folder. Waits for other processes; a process that dies releases its lock."""
    path = cache / ".lock"
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise RehearsalError(
            f"{path} cannot be written: {error.strerror}. Set {OVERRIDE} to a writable folder"
        ) from error
    try:
        _take(descriptor, cache, progress)
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, str(os.getpid()).encode(), 0)
        yield
    finally:
        os.close(descriptor)


def _take(descriptor: int, cache: Path, progress: Progress) -> None:
    import fcntl  # Not available on Windows, which binaries() has refused.

    began = time.monotonic()
    reminded: float | None = None
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            waited = time.monotonic() - began
            if reminded is None or waited - reminded >= _REMIND_SECONDS:
                holder = os.pread(descriptor, 20, 0).decode(errors="replace") or "unknown"
                progress(f"waiting for process {holder}, which builds in {cache} ({waited:.0f} s so far)")
                reminded = waited
            time.sleep(_WAIT_SECONDS)
        else:
            return


def require_room(needed_bytes: int, *, cache: Path, reused: tuple[Path, ...]) -> None:
    """Raise RehearsalError if the disk of `cache` is too small. The content of `reused` folders counts as present."""
    free = shutil.disk_usage(cache).free
    if free >= needed_bytes:
        return
    missing = needed_bytes - sum(_size(folder) for folder in reused) - free
    if missing > 0:
        raise RehearsalError(
            f"{cache} has {free / GIB:.1f} GiB free, but building the control plane needs {missing / GIB:.1f} GiB more. Free "
            f"space, or set {OVERRIDE} (and Go's GOCACHE and GOMODCACHE) to folders on a larger disk"
        )


def _size(folder: Path) -> int:
    total = 0
    for path, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                total += os.lstat(os.path.join(path, name)).st_size  # noqa: PTH118 - a hundred thousand files
    return total
