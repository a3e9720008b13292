"""Barriers between the pods of a measurement, as markers in the results bucket.

A pod that has arrived leaves an object; all read the others'. The bucket's clock dates the markers, so that the pods need no
clock in common but the wall's. A pod whose share has failed leaves a marker that says so: nobody waits for it in vain, and all
of them know the same.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass

from .results_bucket import Bucket

POLL_SECONDS = 0.5
"""Between two looks into the bucket. Assumed: two listings a second for each pod are nothing to Cloud Storage. No pod looks while its
own clients are measured."""
FAILED = ".failed"
LOG = logging.getLogger("barrier")


class LateError(Exception):
    """Not every pod arrived in time; the message names the missing ones."""


@dataclass(frozen=True)
class Arrivals:
    """Who has arrived, and when the bucket saw it, in epoch seconds."""

    at: dict[int, float]
    failed: frozenset[int]

    @property
    def newest(self) -> float:
        """Moment of the newest marker."""
        return max(self.at.values())


@dataclass(frozen=True)
class Barrier:
    """One point in the course of a measurement that all pods reach before any goes on."""

    bucket: Bucket
    prefix: str
    """Folder of the markers in the bucket, with a slash at its end."""
    pod: int
    pods: int
    poll_seconds: float = POLL_SECONDS

    def arrive(self, *, failed: bool = False) -> None:
        """Leave this pod's marker. May be called again to report a failure after all. Raises BucketError."""
        # Stored once: where an answer was lost, a second marker would have another moment than the one that others have read.
        self.bucket.put(f"{self.prefix}{self.pod}{FAILED if failed else ''}", b"")

    def arrivals(self) -> Arrivals:
        """Who is here. Raises BucketError."""
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
        """Wait until those pods have arrived (None: all of them), or one has failed if that ends it, or `go_on` says no.

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
