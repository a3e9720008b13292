"""Time to first response from nothing: durations of all steps, critical path, and levers.

Durations are low, likely and high, from facts/data/durations.yaml; most are marked as assumed. Steps depend on each other as in the
program: the servers' nodes are requested when the weights volume exists.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Literal

from facts import ledger
from facts.disks import MIN_THROUGHPUT_MIBPS
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
    node_mibps: float = DEFAULT_MACHINE.read_mibps
    """Maximum read throughput of one node."""
    platform_exists: bool = False
    """Whether network and cluster exist."""
    weights_exist: bool = False
    """Whether the volume exists, as for a restart, a resumed fleet or one more node."""
    weights_from_hub: bool = False
    """Whether each server downloads the weights to its own disk, without a volume."""
    writer_mibps: float = MIN_THROUGHPUT_MIBPS
    """Throughput of the writer's volume."""
    warm_caches: bool = False
    """Whether the compile cache of the release exists."""
    spare_nodes: bool = False
    """Whether idle nodes with the image exist."""
    gateway: bool = False
    gpus: int = 8
    """GPUs of one server, whose engines compile in parallel."""
    articles_machine: bool = True
    """Whether servers run on the article's machine type, whose start was measured."""

    def __post_init__(self) -> None:
        for name in ("weights_gb", "volume_gib", "volume_mibps", "readers", "node_mibps", "writer_mibps", "gpus"):
            if getattr(self, name) <= 0:
                raise ValueError(f"{name} must be above 0, got {getattr(self, name)}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One step, with start and end if every step takes its likely time."""

    id: str
    title: str
    low_seconds: float
    likely_seconds: float
    high_seconds: float
    begins_seconds: float
    needs: tuple[str, ...]
    critical: bool
    """Whether it is on the critical path."""
    source: str
    """Id of the source in facts/data/sources.yaml; empty if the duration is assumed."""
    note: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Lever:
    """A change that shortens the time to first response, everything else unchanged."""

    id: str
    title: str
    saves_seconds: float
    """Likely seconds saved."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeToServe:
    """Time to first response, with its steps."""

    steps: tuple[Step, ...]
    low_seconds: float
    likely_seconds: float
    high_seconds: float
    levers: tuple[Lever, ...] = ()

    @property
    def critical_path(self) -> tuple[Step, ...]:
        """The steps of the critical path, in order."""
        return tuple(step for step in self.steps if step.critical)


@lru_cache(maxsize=256)
def time_to_serve(start: Start) -> TimeToServe:
    """Time to first response, with levers, the strongest first."""
    way = way_to_serve(start)
    levers = sorted(_levers(start, way.likely_seconds), key=lambda lever: -lever.saves_seconds)
    return replace(way, levers=tuple(levers))


def way_to_serve(start: Start) -> TimeToServe:
    """Time to first response without levers, for a search that needs it often."""
    durations = {step.id: step for step in _steps(start)}
    ends = {bound: _ends(durations, bound) for bound in ("low", "likely", "high")}
    likely = ends["likely"]
    critical = _critical(durations, likely)
    steps = tuple(
        replace(step, begins_seconds=likely[id_] - step.likely_seconds, critical=id_ in critical)
        for id_, step in durations.items()
    )
    low, most_likely, high = (max(ends[bound].values()) for bound in ("low", "likely", "high"))
    return TimeToServe(steps=steps, low_seconds=low, likely_seconds=most_likely, high_seconds=high)


def _steps(start: Start) -> Iterator[Step]:
    for id_, entry in ledger.section("durations", "steps").items():
        if id_ in _left_out(start):
            continue
        entry = _as_on(start, entry)
        low, likely, high = (_duration(id_, entry, bound, start) for bound in ("low", "likely", "high"))
        yield Step(
            id=id_,
            title=entry["title"],
            low_seconds=low,
            likely_seconds=likely,
            high_seconds=high,
            begins_seconds=0.0,
            needs=_needs(entry["needs"], _left_out(start)),
            critical=False,
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
    left = {"engines" if start.warm_caches else "engines-warm"}
    if start.platform_exists:
        left |= {"apis", "cluster"}
    if start.weights_exist or start.weights_from_hub:
        left |= {"writer-node", "download", "image", "volume"}
    if start.spare_nodes:
        left |= {"gpu-node", "image-pull"}
    if not start.gateway:
        left |= {"gateway"}
    return frozenset(left)


def _needs(needs: list[str], left_out: frozenset[str]) -> tuple[str, ...]:
    """Required steps, with each omitted step replaced by its requirements."""
    found: list[str] = []
    for need in needs:
        if need in left_out:
            found += _needs(ledger.entry("durations", "steps", need)["needs"], left_out)
        else:
            found.append(need)
    return tuple(dict.fromkeys(found))


def _duration(id_: str, entry: Mapping[str, Any], bound: Bound, start: Start) -> float:
    if id_ == "download":
        mb_per_s = min(float(entry["mb_per_s"][bound]), start.writer_mibps * MB_PER_MIB)
        return start.weights_gb * MB_PER_GB / mb_per_s
    if id_ == "image":
        return image_seconds(start.volume_gib, bound)
    if id_ == "volume":
        return float(entry["share_of_image"][bound]) * image_seconds(start.volume_gib, bound)
    if id_ == "weights-read":
        if start.weights_from_hub:
            return start.weights_gb * MB_PER_GB / download_mb_per_s(bound)
        return weights_read_seconds(
            size_gb=start.weights_gb,
            throughput_mibps=start.volume_mibps,
            readers=start.readers,
            node_mibps=start.node_mibps,
        )
    return float(entry[bound])


def step_seconds(id_: str, bound: Bound = "likely") -> float:
    """Duration of a step that does not depend on sizes."""
    return float(ledger.entry("durations", "steps", id_)[bound])


def download_mb_per_s(bound: Bound = "likely") -> float:
    """Throughput of one download through Cloud NAT in MB/s, if the volume is fast enough."""
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


def _ends(steps: Mapping[str, Step], bound: Bound) -> dict[str, float]:
    ends: dict[str, float] = {}
    # The file lists every step after those it needs.
    for id_, step in steps.items():
        begins = max((ends[need] for need in step.needs), default=0.0)
        ends[id_] = begins + float(getattr(step, f"{bound}_seconds"))
    return ends


def _critical(steps: Mapping[str, Step], ends: Mapping[str, float]) -> frozenset[str]:
    path: set[str] = set()
    last = max(ends, key=lambda id_: ends[id_])
    while True:
        path.add(last)
        if not steps[last].needs:
            return frozenset(path)
        last = max(steps[last].needs, key=lambda id_: ends[id_])


def _levers(start: Start, seconds: float) -> Iterator[Lever]:
    def lever(id_: str, title: str, **changes: Any) -> Iterator[Lever]:
        saved = seconds - way_to_serve(replace(start, **changes)).likely_seconds
        if saved >= 1:
            yield Lever(id=id_, title=title, saves_seconds=saved)

    if not start.warm_caches:
        yield from lever("warm-caches", "compile caches of an earlier start (server.compileCache)", warm_caches=True)
    if not start.spare_nodes:
        yield from lever("spare-nodes", "one more node kept ready, idle", spare_nodes=True)
    if not start.weights_exist and not start.weights_from_hub:
        yield from lever("weights-first", "weights written before the start", weights_exist=True)
        yield from lever(
            "faster-writer", "twice the throughput of the writer's volume", writer_mibps=2 * start.writer_mibps
        )
    yield from lever("faster-volume", "twice the throughput of the weights volume", volume_mibps=2 * start.volume_mibps)
    if not start.platform_exists:
        yield from lever("platform-first", "network and cluster created before the start", platform_exists=True)
