"""Time to first response from nothing: a table of steps, each after the one before.

Durations are low, likely and high, from facts/data/durations.yaml; most are marked as assumed. The servers' nodes are requested when the
weights volume exists. A gateway's load balancer is programmed meanwhile and is ready long before the servers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from facts import ledger
from facts.capacity import FLEX_START_WAIT_SECONDS
from facts.machines import DEFAULT_MACHINE

MB_PER_MIB = 2**20 / 1e6
MB_PER_GB = 1_000
Bound = Literal["low", "likely", "high"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """The conditions of a fleet's start. Raises ValueError for an invalid number."""

    weights_gb: float
    """Size of the model's files, GB (10^9 bytes)."""
    volume_gib: int
    volume_mibps: float
    """Throughput of the weights volume."""
    readers: int
    """Servers that read one volume at the same time."""
    platform_exists: bool = False
    """Whether network and cluster exist."""
    weights_exist: bool = False
    """Whether the volume exists, as for a restart, a resumed fleet or one more node."""
    weights_from_hub: bool = False
    """Whether each server downloads the weights to its own disk, without a volume."""
    warm_caches: bool = False
    """Whether the compile cache of the release exists."""
    flex_start: bool = False
    """Whether the node may be waited for at flex-start."""
    gpus: int = 8
    """GPUs of one server, whose engines compile in parallel."""
    articles_machine: bool = True
    """Whether servers run on the article's machine type, whose start was measured."""

    def __post_init__(self) -> None:
        for name in ("weights_gb", "volume_gib", "volume_mibps", "readers", "gpus"):
            if getattr(self, name) <= 0:
                raise ValueError(f"{name} must be above 0, got {getattr(self, name)}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One row of the table."""

    id: str
    title: str
    low_seconds: float
    likely_seconds: float
    high_seconds: float
    source: str
    """Id of the source in facts/data/sources.yaml; empty if the duration is assumed."""
    note: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeToServe:
    """Time to first response: its steps in order, and their sums."""

    steps: tuple[Step, ...]
    low_seconds: float
    likely_seconds: float
    high_seconds: float


def time_to_serve(start: Start) -> TimeToServe:
    """Time to first response from these conditions."""
    steps = tuple(_steps(start))
    return TimeToServe(
        steps=steps,
        low_seconds=sum(step.low_seconds for step in steps),
        likely_seconds=sum(step.likely_seconds for step in steps),
        high_seconds=sum(step.high_seconds for step in steps),
    )


def _steps(start: Start) -> Iterator[Step]:
    left_out = _left_out(start)
    for id_, entry in ledger.section("durations", "steps").items():
        if id_ in left_out:
            continue
        entry = _as_on(start, entry)
        low, likely, high = (_duration(id_, entry, bound, start) for bound in ("low", "likely", "high"))
        yield Step(
            id=id_,
            title=entry["title"],
            low_seconds=low,
            likely_seconds=likely,
            high_seconds=high,
            source=entry.get("source", ""),
            note=entry.get("note") or entry.get("assumed", ""),
        )


def _as_on(start: Start, entry: Mapping[str, Any]) -> Mapping[str, Any]:
    """The step's entry for that server, without the article's source on another machine type."""
    if start.weights_from_hub and "from_hub" in entry:
        return {**entry, **entry["from_hub"]}
    if start.gpus == 1 and "alone" in entry:
        return {**entry, **entry["alone"]}
    if not start.articles_machine and "elsewhere" in entry:
        return {**entry, "source": "", "note": "", **entry["elsewhere"]}
    return entry


def _left_out(start: Start) -> frozenset[str]:
    left = {"engines" if start.warm_caches else "engines-warm", "gateway"}
    if not start.flex_start:
        left.add("flex-start")
    if start.platform_exists:
        left |= {"apis", "cluster"}
    if start.weights_exist or start.weights_from_hub:
        left |= {"writer-node", "download", "image", "volume"}
    return frozenset(left)


def _duration(id_: str, entry: Mapping[str, Any], bound: Bound, start: Start) -> float:
    if id_ == "download":
        return start.weights_gb * MB_PER_GB / download_mb_per_s(bound)
    if id_ == "image":
        return image_seconds(start.volume_gib, bound)
    if id_ == "volume":
        return float(entry["share_of_image"][bound]) * image_seconds(start.volume_gib, bound)
    if id_ == "flex-start":
        return FLEX_START_WAIT_SECONDS if bound == "high" else 0
    if id_ == "weights-read":
        if start.weights_from_hub:
            return start.weights_gb * MB_PER_GB / download_mb_per_s(bound)
        return weights_read_seconds(
            size_gb=start.weights_gb,
            throughput_mibps=start.volume_mibps,
            readers=start.readers,
        )
    return float(entry[bound])


def step_seconds(id_: str, bound: Bound = "likely") -> float:
    """Duration of a step that does not depend on sizes."""
    return float(ledger.entry("durations", "steps", id_)[bound])


def download_mb_per_s(bound: Bound = "likely") -> float:
    """Throughput of one download through Cloud NAT in MB/s. The slowest volume (facts/disks.py) is faster."""
    return float(ledger.entry("durations", "steps", "download")["mb_per_s"][bound])


def image_seconds(volume_gib: float, bound: Bound = "likely") -> float:
    """Seconds to create an image of a disk of that size."""
    entry = ledger.entry("durations", "steps", "image")
    hundreds_of_gb = volume_gib * 2**30 / 100e9
    return max(float(entry["at_least"][bound]), float(entry["seconds_per_100_gb"][bound]) * hundreds_of_gb)


def weights_read_seconds(
    *, size_gb: float, throughput_mibps: float, readers: int, node_mibps: float = DEFAULT_MACHINE.read_mibps
) -> float:
    """Seconds for `readers` nodes to read one volume at the same time: they share its throughput, up to a node's limit."""
    share_mibps = min(throughput_mibps / max(1, readers), node_mibps)
    return size_gb * MB_PER_GB / (share_mibps * MB_PER_MIB)
