"""One run of the `go` command: what it says becomes progress, and what goes wrong becomes words."""

from __future__ import annotations

import re
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from fleet.rehearse.control_plane.process import Process
from fleet.rehearse.control_plane.toolchain import Toolchain
from fleet.rehearse.results import RehearsalError

HEARTBEAT_SECONDS: Final = 10.0
"""A line of progress at least so often, wall time."""
_LOOK_SECONDS: Final = 0.2
_FAILURES: Final = (
    (r"no space left on device|disk quota exceeded", "the disk is full; building takes 5 GB (docs/decisions/0017)"),
    (
        r"SECURITY ERROR|checksum mismatch",
        "a downloaded module is not the one whose checksum go.sum holds; do not use it, and tell whoever runs your module proxy",
    ),
    (
        r"no such host|connection refused|i/o timeout|TLS handshake|certificate|network is unreachable|EOF|\b50\d\b",
        "the Go module proxy does not answer; check the network and GOPROXY, then run it again: it goes on where it stopped",
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
    """Run `go` in a folder; every line it said. `heard` gets each line, `heartbeat` the seconds so far, now and then.

    Ends with this process, however that ends. Raises RehearsalError: `what` could not be done, and why.
    """
    began = time.monotonic()
    said: list[str] = []
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
                    said.append(line.decode(errors="replace"))
                    heard(said[-1])
                if code is not None:
                    break
                if time.monotonic() - beaten >= HEARTBEAT_SECONDS:
                    beaten = time.monotonic()
                    heartbeat(beaten - began)
        finally:
            process.stop()
    if code:
        raise RehearsalError(_failure(what, said))
    return said


def _failure(what: str, said: list[str]) -> str:
    text = "\n".join(said)
    why = next((meaning for pattern, meaning in _FAILURES if re.search(pattern, text)), "")
    last = "\n".join(f"  {line[:400]}" for line in said[-8:])
    return f"{what} failed{': ' + why if why else ''}. Go said:\n{last}"
