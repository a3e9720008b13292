"""How long the clients of a batch wait, in seconds."""

from __future__ import annotations

from dataclasses import dataclass, fields


@dataclass(frozen=True)
class Times:
    """Durations in seconds. Assumed, where no source is named."""

    lease: float = 90.0
    """A lease that was not renewed for so long is over: four renewals may fail."""
    renew: float = 20.0
    part: float = 15.0
    """Between two parts of a shard: a killed client's answers of so many seconds are asked for again."""
    stop: float = 15.0
    """Between two looks for stop.json."""
    watch: float = 5.0
    """Between two readings of the servers' queues."""
    progress: float = 10.0
    terms: float = 60.0
    """Between two looks for other terms of a running batch."""
    idle: float = 5.0
    """Between two looks for a free shard while others hold all of them."""
    drain: float = 60.0
    """For requests in flight when a batch is stopped, or after SIGTERM. Half of the pod's grace: the rest is for parts and leases. A pod
    that is killed earlier loses what was in flight."""
    connect: float = 10.0
    """For a connection to the servers."""
    pause: float = 0.5
    """First pause after a fleet's failure; doubles up to `longest_pause`."""
    longest_pause: float = 60.0
    again: float = 2.0
    """Pause of a document after its first failed attempt; four times as long after each further one: five attempts last three minutes,
    longer than a server whose engine died still answers."""
    bucket_pause: float = 2.0
    """As results_bucket's `pause_seconds`."""
    blind: float = 120.0
    """What cannot be read for so long is logged."""
    repeat: float = 300.0
    """Between two log lines about what lasts, so that an alert stays open."""
    log: float = 60.0
    """Between two log lines of the progress."""
    stalled: float = 600.0
    """Without a finished document, though servers are ready."""
    rate: float = 300.0
    """Window of the rate that is reported."""

    def at(self, speed: float) -> Times:
        """Of a clock that runs `speed` times as fast as the wall's, for rehearsals."""
        return Times(**{field.name: getattr(self, field.name) / speed for field in fields(self)})
