"""When a drill has no meaning under a stack's settings, in words."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from fleet.report.words import plural
from settings.sections.capacity import Calendar, Reservation

if TYPE_CHECKING:
    from facts.machines import Way
    from settings.stack import Settings

Skip = Callable[["Settings"], str]


def needs_servers(least: int = 1) -> Skip:
    """Not for a stack with fewer servers."""

    def skip(settings: Settings) -> str:
        number = settings.server.fixed_replicas
        if number == "external" and settings.is_scaled:
            return "an autoscaler says how many servers there are; drills of its own play it"
        if number == "external":
            return "server.replicas is external: somebody else says how many servers there are"
        return "" if number >= least else f"the stack runs {plural(number, 'server')}, the drill needs {least}"

    return skip


def no_others(servers: int, gone: int = 1) -> str:
    """Why a check of those that go on while so many are gone shows nothing, or nothing."""
    return "" if servers > gone else f"the stack runs {plural(servers, 'server')}, and no other is there to go on"


def on_spot(least: int) -> Skip:
    """Only where Google may take a node back at any moment, and with that many servers on as many machines."""

    def skip(settings: Settings) -> str:
        if not settings.placement.interruptible:
            return "nodes of this capacity get no Spot notice"
        return needs_servers(least)(settings) or (whole_machines(settings) if least > 1 else "")

    return skip


def needs_ways(*ways: Way) -> Skip:
    """Only where the machine can be had in all of these ways."""

    def skip(settings: Settings) -> str:
        missing = ", ".join(way for way in ways if way not in settings.machine.ways)
        return f"{settings.machine.type} cannot be had by capacity.mode {missing}" if missing else ""

    return skip


def whole_machines(settings: Settings) -> str:
    """Only where each server has a machine of its own."""
    whole = settings.gpus_per_replica == settings.machine.gpus
    return "" if whole else "several servers share a machine in this stack"


def one_server_only(settings: Settings) -> str:
    """Not where each server downloads its own weights, which is refused of more than one."""
    return "" if settings.weights.has_volume else "weights straight from the hub are for one server only"


def writes_weights(settings: Settings) -> str:
    """Only where this stack writes a weights volume."""
    return "" if settings.weights.is_written else "the stack writes no weights volume"


def has_gateway(settings: Settings) -> str:
    """Only where the gateway is on."""
    return "" if settings.gateway.enabled else "the gateway is off in this stack"


def owns_platform(settings: Settings) -> str:
    """Only where the stack has a cluster of its own."""
    return "" if settings.owns_platform else "the cluster is another stack's"


def room_for_one_more(settings: Settings) -> str:
    """Only where one more server would get a machine."""
    capacity = settings.capacity
    if not settings.weights.has_volume:
        return "each server downloads its own weights in this stack, which is for one server only"
    if not isinstance(capacity, Reservation | Calendar):
        return ""
    held = capacity.nodes if isinstance(capacity, Reservation) else capacity.create and capacity.create.nodes
    return "" if held and held > settings.nodes else "the reservation holds no machine for one more server"


def all_of(*skips: Skip) -> Skip:
    """The first reason that any of them gives."""

    def skip(settings: Settings) -> str:
        return next((reason for one in skips if (reason := one(settings))), "")

    return skip
