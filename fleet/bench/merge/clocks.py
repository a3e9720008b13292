"""Align every client's monotonic times on one clock, with the uncertainty."""

from __future__ import annotations

import calendar
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from fleet.bench.folder import Witness
from fleet.bench.merge.client_data import ClientData, Floats

MAX_DRIFT_SECONDS: Final = 1.0
"""Between a witness' two readings. Assumed: time services slew by at most 0.5 ms a second, half a second in a run of a quarter hour."""
END_DATE_SECONDS: Final = 2.0
"""Uncertainty of a file's date. Assumed: it is written to the second, and up to a second after the last answer."""
DATE_STEP_SECONDS: Final = 1.0
SAME_NODE_SECONDS: Final = 3.0
"""Dates minus monotonic ends that differ by no more are taken as of one boot. Assumed: a step of the date at either end, and a
second of computing. Other nodes differ by their time of boot, which is as near by chance only."""
_ZONE_STEP: Final = 1800.0

Kind = Literal["witness", "one node", "end date"]


@dataclass(frozen=True, kw_only=True)
class ClientClock:
    """Wall clock = wall + (monotonic - monotonic_at) * rate."""

    monotonic_at: float
    wall: float
    rate: float = 1.0

    def since(self, origin: float, monotonic: Floats) -> Floats:
        """Seconds since `origin`. Differences first: a wall clock's number leaves only a quarter of a microsecond."""
        return (self.wall - origin) + (monotonic - self.monotonic_at) * self.rate

    def at(self, monotonic: float) -> float:
        """One moment."""
        return self.wall + (monotonic - self.monotonic_at) * self.rate


@dataclass(frozen=True, kw_only=True)
class Clocks:
    """One clock a client, in the order of the clients."""

    kind: Kind
    uncertainty_s: float
    clocks: tuple[ClientClock, ...]
    known_wall: bool
    """Whether moments are seconds since 1970; otherwise since the first request."""
    remarks: tuple[str, ...] = ()


def drift(witness: Witness) -> float:
    """Seconds by which wall and monotonic clock moved against each other between the witness' two readings."""
    start, end = witness.clock, witness.clock_at_end
    return (end.wall - start.wall) - (end.perf_counter - start.perf_counter)


def lay(clients: Sequence[ClientData], witnesses: Mapping[str, Witness]) -> Clocks:
    """Clocks of one run's clients; witnesses by the result's file name."""
    seen = {client.file: witnesses[client.file] for client in clients if client.file in witnesses}
    if seen:
        return _by_witness(clients, seen)
    return _by_date(clients)


def _of_witness(witness: Witness) -> ClientClock:
    start, end = witness.clock, witness.clock_at_end
    passed = end.perf_counter - start.perf_counter
    rate = (end.wall - start.wall) / passed if passed > 0 else 1.0
    return ClientClock(monotonic_at=start.perf_counter, wall=start.wall, rate=rate)


def _by_witness(clients: Sequence[ClientData], seen: Mapping[str, Witness]) -> Clocks:
    known = {file: _of_witness(witness) for file, witness in seen.items()}
    uncertainty = max(abs(drift(witness)) for witness in seen.values())
    clocks, kind = [], "witness"
    alone: list[str] = []
    guessed: list[str] = []
    for client in clients:
        if client.file in known:
            clocks.append(known[client.file])
            continue
        # A client without a witness: by that of a neighbor on its node, which its date finds.
        end = _date_utc(client)
        near = min(known.values(), key=lambda clock: abs(clock.at(client.last) - end)) if end is not None else None
        off = abs(near.at(client.last) - end) if near is not None and end is not None else None
        if near is not None and off is not None and off <= SAME_NODE_SECONDS:
            clocks.append(near)
            uncertainty = max(uncertainty, off)  # it may be of another node that booted in the same second
            guessed.append(client.file)
            continue
        kind, uncertainty = "end date", max(uncertainty, END_DATE_SECONDS)
        alone.append(client.file)
        clocks.append(ClientClock(monotonic_at=client.last, wall=end if end is not None else max(
            known[other.file].at(other.last) for other in clients if other.file in known
        )))  # fmt: skip
    remarks = [f"without a witness on their node, aligned by the date in the file: {', '.join(alone)}"] if alone else []
    if guessed:
        remarks.append(
            f"without a witness, aligned by the clock of the node that their date fits: {', '.join(guessed)}"
        )
    return Clocks(
        kind="witness" if kind == "witness" else "end date",
        uncertainty_s=uncertainty,
        clocks=tuple(clocks),
        known_wall=True,
        remarks=tuple(remarks),
    )


def _by_date(clients: Sequence[ClientData]) -> Clocks:
    ends = [_date_utc(client) for client in clients]
    dated = [end for end in ends if end is not None]
    started = _started_at(clients)
    shift = 0.0
    if started is not None and dated:  # dates are of the client's own time zone
        off = max(dated) - max(client.duration for client in clients) - started
        shift = -round(off / _ZONE_STEP) * _ZONE_STEP
    boots = [end - client.last for end, client in zip(ends, clients, strict=True) if end is not None]
    if len(boots) == len(clients) and max(boots) - min(boots) <= SAME_NODE_SECONDS:
        firsts = [client.first for client in clients]
        one = ClientClock(monotonic_at=min(firsts), wall=started if started is not None else 0.0)
        # Nodes that booted within these seconds would look the same. Clients released together by a barrier bound the error
        # better: by one clock they began within milliseconds, which two clocks would show by chance only.
        uncertainty = max(boots) - min(boots) + DATE_STEP_SECONDS
        if all("started_at" in client.metadata for client in clients):
            uncertainty = min(uncertainty, max(firsts) - min(firsts))
        why = (
            "no witness files: aligned by one node's monotonic clock, which the dates fit; off by at most "
            f"{uncertainty:.2f} s if the clients ran on several nodes that booted together"
        )
        several = len(clients) > 1
        return Clocks(
            kind="one node",
            uncertainty_s=uncertainty if several else 0.0,
            clocks=(one,) * len(clients),
            known_wall=started is not None,
            remarks=(why,) if several else (),
        )
    if not dated:
        # Assumed: they began together.
        clocks = tuple(ClientClock(monotonic_at=client.first, wall=started or 0.0) for client in clients)
        longest = max(client.last - client.first for client in clients)
        return Clocks(
            kind="end date", uncertainty_s=longest, clocks=clocks, known_wall=started is not None,
            remarks=("no witness files and no dates: clients are aligned as if all had begun together",),
        )  # fmt: skip
    clocks = tuple(
        ClientClock(monotonic_at=client.last, wall=(end if end is not None else max(dated)) + shift)
        for end, client in zip(ends, clients, strict=True)
    )
    if started is None:
        first = min(clock.at(client.first) for clock, client in zip(clocks, clients, strict=True))
        clocks = tuple(ClientClock(monotonic_at=c.monotonic_at, wall=c.wall - first) for c in clocks)
    return Clocks(
        kind="end date", uncertainty_s=END_DATE_SECONDS, clocks=clocks, known_wall=started is not None,
        remarks=(
            "no witness files, and several nodes: clients are aligned by the date in each file, "
            f"within {END_DATE_SECONDS:g} s",
        ),
    )  # fmt: skip


def _date_utc(client: ClientData) -> float | None:
    try:
        return float(calendar.timegm(time.strptime(client.date or "", "%Y%m%d-%H%M%S")))
    except ValueError:
        return None


def _started_at(clients: Sequence[ClientData]) -> float | None:
    values = []
    for client in clients:
        try:
            values.append(float(client.metadata["started_at"]))
        except (KeyError, ValueError):
            continue
    return min(values) if values else None
