"""`nvidia-smi dmon` in every server's container while a measurement runs, one file each."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

from fleet.bench.folder import GPU_FOLDER
from fleet.bench.run.watching import AWAY, FINAL, PATIENCE_SECONDS
from fleet.clients.errors import LiveError

if TYPE_CHECKING:
    from fleet.clients.kubectl import Kubectl

DMON: Final = "nvidia-smi dmon -s pucvmet -d 1 -o DT"
"""Power and temperature, utilization, clocks, violations, memory, errors, PCIe; each second, with date and time.
Source: nvidia-smi dmon's manual."""
REMOTE: Final = (
    "sh",
    "-c",
    # dmon ends when this shell's stdin ends, since the laptop may disconnect at any time. A shell gives a background process
    # /dev/null for stdin, hence the copy.
    f"exec 3<&0; TZ=UTC {DMON} & smi=$!; (cat <&3; kill $smi) >/dev/null 2>&1 & cat=$!; wait $smi; ended=$?; "
    "kill $cat 2>/dev/null; exit $ended",
)
AGAIN_SECONDS: Final = 5.0
_LOOK_SECONDS: Final = 0.2
_LONGEST_ROW: Final = 4096
"""Bytes; dmon's rows with all these columns have some 200."""
ATTEMPTS: Final = 10
"""Failed attempts in a row, while the cluster responds, after which a server is skipped. Assumed."""


class GpuSamples:
    """The collectors of all servers, as a context: started on entering, ended on leaving. Errors never stop a measurement."""

    def __init__(self, kubectl: Kubectl, pods: Sequence[str], container: str, folder: Path) -> None:
        """`folder` is the measurement's."""
        self._kubectl, self._container, self._folder = kubectl, container, folder / GPU_FOLDER
        self._stop = threading.Event()
        self._problems: dict[str, str] = {}
        self._threads = [threading.Thread(target=self._collect, args=(pod,), daemon=True) for pod in pods]

    def __enter__(self) -> GpuSamples:
        self._folder.mkdir(parents=True, exist_ok=True)
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()
        for file in self._folder.glob("dmon-*.txt"):
            if file.stat().st_size == 0:
                file.unlink()
        if not any(self._folder.iterdir()):
            self._folder.rmdir()

    @property
    def problems(self) -> tuple[str, ...]:
        """Why servers have no samples or gaps; each reason once, with the number of servers."""
        count: dict[str, int] = {}
        for pod, why in list(self._problems.items()):
            has_some = self._samples(pod).is_file() and self._samples(pod).stat().st_size > 0
            words = f"{'gaps in the' if has_some else 'no'} GPU samples by nvidia-smi: {why}"
            count[words] = count.get(words, 0) + 1
        return tuple(f"{words} ({number} of {len(self._threads)} servers)" for words, number in count.items())

    def _samples(self, pod: str) -> Path:
        return self._folder / f"dmon-{pod}.txt"

    def _collect(self, pod: str) -> None:
        """Write the pod's file until stopped. Reconnects after a failure; timestamps show the gap."""
        fruitless, answered = 0, time.monotonic()
        with self._samples(pod).open("w+b") as file:
            while fruitless < ATTEMPTS and time.monotonic() - answered < PATIENCE_SECONDS:
                had, began = file.tell(), time.monotonic()
                problem = self._once(pod, file)
                if self._stop.is_set():
                    return
                _end_at_a_line(file)
                # The same text for all servers, so that it is printed once.
                self._problems[pod] = str(problem).replace(pod, "the server's pod")
                # A header alone counts as a failure: a dmon that ends immediately will do so again.
                fruitful = file.tell() > had and time.monotonic() - began > AGAIN_SECONDS
                if fruitful or problem.reason not in AWAY:
                    answered = time.monotonic()
                    fruitless = 0 if fruitful else fruitless + 1
                if problem.reason in FINAL or self._stop.wait(AGAIN_SECONDS):
                    return

    def _once(self, pod: str, file: IO[bytes]) -> LiveError:
        """Collect until stopped or until it fails: why it failed."""
        try:
            with self._kubectl.exec_streaming(pod, self._container, REMOTE, file) as streaming:
                while streaming.running and not self._stop.wait(_LOOK_SECONDS):
                    pass
                return streaming.problem() or LiveError("nvidia-smi dmon ended by itself")
        except LiveError as error:
            return error


def _end_at_a_line(file: IO[bytes]) -> None:
    """Remove a cut row at the end; the next output begins with a header."""
    # Written by another process, through the same place in the file.
    end = os.lseek(file.fileno(), 0, os.SEEK_END)
    tail = os.pread(file.fileno(), _LONGEST_ROW, max(0, end - _LONGEST_ROW))
    cut = len(tail.rpartition(b"\n")[2])
    file.truncate(end - cut)
    file.seek(end - cut)
