"""Reads every server's /metrics once a second for the length of a run, into one gzip file of JSON lines.

One thread for each server, so that a slow one holds up none of the others. A reading that takes longer than a second costs its
own server the seconds that it took: they are left out, never estimated. Ends on SIGTERM or SIGINT with a complete file.
"""

from __future__ import annotations

import argparse
import gzip
import json
import logging
import queue
import signal
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .server_metrics import ScrapeError, Server, resolve, split_address

PERIOD_SECONDS = 1.0
RESOLVE_SECONDS = 5.0
"""Seconds between look-ups. Assumed: cluster DNS caches an answer for 5 to 30 s."""
TIMEOUT_SECONDS = 5.0
"""Timeout of a reading. Assumed: a slower page does not describe a second."""
LOG = logging.getLogger("collect_metrics")


class Collector:
    """Threads that read, and one queue that they fill."""

    def __init__(self, hosts: list[tuple[str, int]], *, period: float, resolve_every: float, timeout: float) -> None:
        self.hosts, self.period, self.resolve_every, self.timeout = hosts, period, resolve_every, timeout
        self.samples: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
        self.stop = threading.Event()
        self._leave: dict[tuple[str, int], threading.Event] = {}
        self._threads: list[threading.Thread] = []

    def start(self) -> None:
        """Begin; samples arrive in the queue until `end`."""
        self._spawn(self._follow_addresses)

    def end(self) -> None:
        """Read every server once more, for the tokens since its last reading, and stop."""
        self.stop.set()
        for leave in list(self._leave.values()):
            leave.set()
        # A reading in progress and the last one.
        deadline = time.monotonic() + 2 * self.timeout + 1.0
        for thread in list(self._threads):
            thread.join(max(0.0, deadline - time.monotonic()))
        self.samples.put(None)

    def _spawn(self, target: Any, *arguments: Any) -> None:
        # Daemons: a thread that hangs in the resolver must not keep the process from ending.
        thread = threading.Thread(target=target, args=arguments, daemon=True)
        self._threads = [one for one in self._threads if one.is_alive()] + [thread]
        thread.start()

    def _follow_addresses(self) -> None:
        known: set[tuple[str, int]] = set()
        while not self.stop.is_set():
            try:
                present = set(resolve(self.hosts))
            except ScrapeError as error:
                # Known servers are still read: names fail more often than servers.
                host = ",".join(f"{name}:{port}" for name, port in self.hosts)
                self.samples.put({"at": round(time.time(), 3), "server": host, "error": str(error)})
                present = known
            for address in sorted(known - present):
                self._leave.pop(address).set()
                name = Server(*address).name
                self.samples.put(
                    {"at": round(time.time(), 3), "server": name, "error": "no longer among the addresses"}
                )
                LOG.info("%s left", name)
            for address in sorted(present - known):
                self._leave[address] = threading.Event()
                self._spawn(self._read_on, address, self._leave[address])
                LOG.info("%s is read", Server(*address).name)
            known = present
            self.stop.wait(self.resolve_every)

    def _read_on(self, address: tuple[str, int], leave: threading.Event) -> None:
        server, told = Server(*address, timeout_seconds=self.timeout), False
        due = time.monotonic()
        last = False
        while not last and (self.stop.is_set() or not leave.is_set()):
            last = self.stop.is_set()
            sample: dict[str, Any] = {"at": 0.0, "server": server.name}
            try:
                reading = server.read()
                sample["values"] = reading.values
                if reading.info is not None and not told:
                    sample["info"], told = reading.info, True
            except ScrapeError as error:
                sample["error"] = str(error)
            sample["at"] = round(time.time(), 3)
            self.samples.put(sample)
            now = time.monotonic()
            due += self.period
            if due < now:
                due = now + self.period - (now - due) % self.period
            leave.wait(due - now)
        server.close()


def partial(file: Path) -> Path:
    """Name of a file that is being written."""
    return file.with_name(f"{file.name}.part")


def write_samples(samples: queue.SimpleQueue[dict[str, Any] | None], file: Path) -> int:
    """Write samples until None; the file is renamed when complete. Returns the number of samples."""
    count = 0
    with gzip.open(partial(file), "wt", encoding="utf-8", compresslevel=4) as out:
        while (sample := samples.get()) is not None:
            out.write(json.dumps(sample, separators=(",", ":")) + "\n")
            count += 1
    partial(file).replace(file)
    return count


def main(arguments: Sequence[str] | None = None) -> int:
    """Collect until told to stop."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--server-pods", required=True, help="HOST:PORT; every address of HOST is one server")
    parser.add_argument("--out", required=True, type=Path)
    parser.add_argument("--period-seconds", type=float, default=PERIOD_SECONDS)
    parser.add_argument("--resolve-seconds", type=float, default=RESOLVE_SECONDS)
    parser.add_argument("--timeout-seconds", type=float, default=TIMEOUT_SECONDS)
    options = parser.parse_args(arguments)
    try:
        hosts = split_address(options.server_pods)
    except ValueError as error:
        sys.exit(f"--server-pods: {error}")
    collector = Collector(
        hosts,
        period=options.period_seconds,
        resolve_every=options.resolve_seconds,
        timeout=options.timeout_seconds,
    )
    told = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: told.set())
    collector.start()
    outcome: list[str] = []

    def write() -> None:
        try:
            LOG.info("%d samples in %s", write_samples(collector.samples, options.out), options.out)
        except OSError as error:
            outcome.append(f"cannot write {options.out}: {error}")

    writer = threading.Thread(target=write)
    writer.start()
    # Without a timeout, some systems never run the signal's handler.
    while not told.wait(0.5) and writer.is_alive():
        pass
    collector.end()
    writer.join()
    if outcome:
        sys.exit(outcome[0])
    return 0


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", stream=sys.stdout)
    sys.exit(main())
