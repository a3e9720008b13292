"""Barriers between the pods of a measurement, as markers in the results bucket.

Each pod writes an object when it arrives and lists the others'. The bucket's clock dates the markers. A pod that failed writes a
marker for that, so that the others do not wait for it and all pods agree.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass

from .results_bucket import Bucket

POLL_SECONDS = 0.5
"""Seconds between listings. Assumed: two a second for each pod are no load for Cloud Storage. No pod lists while its clients are
measured."""
FAILED = ".failed"
LOG = logging.getLogger("barrier")


class LateError(Exception):
    """Not every pod arrived in time; the message names the missing ones."""


@dataclass(frozen=True)
class Arrivals:
    """Pods that have arrived, with the bucket's time in epoch seconds."""

    at: dict[int, float]
    failed: frozenset[int]

    @property
    def newest(self) -> float:
        """Moment of the newest marker."""
        return max(self.at.values())


@dataclass(frozen=True)
class Barrier:
    """A point that all pods reach before any continues."""

    bucket: Bucket
    prefix: str
    """Folder of the markers in the bucket, with a slash at its end."""
    pod: int
    pods: int
    poll_seconds: float = POLL_SECONDS

    def arrive(self, *, failed: bool = False) -> None:
        """Write this pod's marker; may be called again to report a failure. Raises BucketError."""
        # Stored once: after a lost answer, a second marker would have a later time than the one that others have read.
        self.bucket.put(f"{self.prefix}{self.pod}{FAILED if failed else ''}", b"")

    def arrivals(self) -> Arrivals:
        """Arrived pods. Raises BucketError."""
        at: dict[int, float] = {}
        failed = set()
        for name, moment in self.bucket.created(self.prefix).items():
            number = name.removeprefix(self.prefix)
            if number.endswith(FAILED):
                number = number.removesuffix(FAILED)
                failed.add(int(number))
            # A pod's first marker is its arrival.
            at[int(number)] = min(moment, at.get(int(number), moment))
        return Arrivals(at, frozenset(failed))

    def wait(
        self,
        until: float,
        *,
        for_pods: Collection[int] | None = None,
        go_on: Callable[[], bool] = lambda: True,
        end_on_failure: bool = False,
    ) -> Arrivals:
        """Wait until those pods have arrived (None: all of them), or one has failed with `end_on_failure`, or `go_on` is false.

        Raises LateError at the moment `until` (epoch seconds), and BucketError.
        """
        wanted = set(range(self.pods)) if for_pods is None else set(for_pods)
        told = -1
        while True:
            here = self.arrivals()
            missing = wanted - set(here.at)
            if not missing or (end_on_failure and here.failed) or not go_on():
                return here
            if time.time() >= until:
                raise LateError(f"pods {sorted(missing)} of {self.pods} did not report in time")
            if len(missing) != told:
                told = len(missing)
                LOG.info("%d of %d pods are here", len(wanted) - told, len(wanted))
            time.sleep(self.poll_seconds)
