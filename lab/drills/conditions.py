"""Conditions under which a drill does not apply to a stack, each with its reason."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from facts.texts import plural

if TYPE_CHECKING:
    from facts.machines import Way
    from lab.drills.drill import Proof
    from lab.stage.stage import Stage
    from settings.stack import Settings

Skip = Callable[["Settings"], str]


def needs_servers(least: int = 1) -> Skip:
    """Only for stacks with a fixed number of replicas, at least that many."""

    def skip(settings: Settings) -> str:
        number = settings.server.fixed_replicas
        if number == "external" and settings.is_scaled:
            return "an autoscaler sets the number of replicas; other drills cover it"
        if number == "external":
            return "server.replicas is external: replicas are managed outside the stack"
        return "" if number >= least else f"the stack runs {plural(number, 'replica')}, the drill needs {least}"

    return skip


def no_others(servers: int, gone: int = 1) -> str:
    """Why a check of the remaining replicas could not fail; empty where some remain."""
    return "" if servers > gone else f"the stack runs {plural(servers, 'replica')}, so none remains to check"


def at_most_one_down(stage: Stage, proof: Proof, servers: int, began: float) -> None:
    """Check that replicas changed one at a time since then, a moment of `time.monotonic`."""
    lowest = stage.meter.ready_servers.lowest(began)
    seen = f"at least {lowest} of {servers} Ready"
    proof.check("never more than one replica down", lowest >= servers - 1, seen, empty=no_others(servers))


def on_spot(least: int) -> Skip:
    """Only for interruptible capacity, with that many replicas on as many nodes."""

    def skip(settings: Settings) -> str:
        if not settings.placement.interruptible:
            return "this capacity gets no Spot notice"
        return needs_servers(least)(settings) or (whole_machines(settings) if least > 1 else "")

    return skip


def needs_ways(*ways: Way) -> Skip:
    """Only for machine types sold in all of these capacity modes."""

    def skip(settings: Settings) -> str:
        missing = ", ".join(way for way in ways if way not in settings.machine.ways)
        return f"{settings.machine.type} is not available with capacity.mode {missing}" if missing else ""

    return skip


def whole_machines(settings: Settings) -> str:
    """Only where each replica fills a node."""
    whole = settings.gpus_per_replica == settings.machine.gpus
    return "" if whole else "several replicas share a node in this stack"


def one_server_only(settings: Settings) -> str:
    """Not where the replica downloads its own weights: more than one replica is not allowed then."""
    return "" if settings.weights.has_volume else "weights downloaded from the hub allow only one replica"


def writes_weights(settings: Settings) -> str:
    """Only where the stack writes a weights volume."""
    return "" if settings.weights.is_written else "the stack writes no weights volume"


def all_of(*skips: Skip) -> Skip:
    """The first reason given by any of them."""

    def skip(settings: Settings) -> str:
        return next((reason for skip in skips if (reason := skip(settings))), "")

    return skip
