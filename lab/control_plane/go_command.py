"""Runs the `go` command with progress and clear errors."""

from __future__ import annotations

import re
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from lab.control_plane.process import Process
from lab.control_plane.toolchain import Toolchain
from lab.results.result import RehearsalError

HEARTBEAT_SECONDS: Final = 10.0
"""Interval of progress, wall time."""
_LOOK_SECONDS: Final = 0.2
_FAILURES: Final = (
    (
        r"no space left on device|disk quota exceeded",
        "the disk is full; building takes 5 GB (docs/decisions/16-control-plane.md)",
    ),
    (
        r"SECURITY ERROR|checksum mismatch",
        "a downloaded module does not match its checksum in go.sum; do not use it, and report it to your module proxy's operator",
    ),
    (
        r"no such host|connection refused|i/o timeout|TLS handshake|certificate|network is unreachable|EOF|\b50\d\b",
        "the Go module proxy does not answer; check the network and GOPROXY, then run it again: the build resumes",
    ),
    (r"GOPROXY=off|\b40[1347]\b|\b410\b", "the Go module proxy refuses a module; check GOPROXY"),
    (r"signal: killed|cannot allocate memory", "the machine ran out of memory; compiling takes 2 GB"),
)


def run(
    toolchain: Toolchain,
    arguments: Sequence[str],
    *,
    folder: Path,
    what: str,
    heard: Callable[[str], None] = lambda _: None,
    heartbeat: Callable[[float], None] = lambda _: None,
) -> list[str]:
    """Run `go` in a folder and return its output lines. `heard` gets each line, `heartbeat` periodically the seconds so far.

    It ends with this process. Raises RehearsalError with the reason why `what` failed.
    """
    began = time.monotonic()
    lines_so_far: list[str] = []
    with tempfile.NamedTemporaryFile(prefix="go-", suffix=".log", dir=folder) as log:
        process = Process(
            "go", [toolchain.go, *arguments], folder=folder, log=Path(log.name), environment=toolchain.environment
        )
        try:
            unfinished, beaten = b"", began
            while True:
                code = process.wait(_LOOK_SECONDS)
                unfinished += log.read()
                *lines, unfinished = unfinished.split(b"\n")
                if code is not None and unfinished:
                    lines.append(unfinished)
                for line in lines:
                    lines_so_far.append(line.decode(errors="replace"))
                    heard(lines_so_far[-1])
                if code is not None:
                    break
                if time.monotonic() - beaten >= HEARTBEAT_SECONDS:
                    beaten = time.monotonic()
                    heartbeat(beaten - began)
        finally:
            process.stop()
    if code:
        raise RehearsalError(_failure(what, lines_so_far))
    return lines_so_far


def _failure(what: str, lines: list[str]) -> str:
    text = "\n".join(lines)
    why = next((meaning for pattern, meaning in _FAILURES if re.search(pattern, text)), "")
    last = "\n".join(f"  {line[:400]}" for line in lines[-8:])
    return f"{what} failed{': ' + why if why else ''}. Output of go:\n{last}"
