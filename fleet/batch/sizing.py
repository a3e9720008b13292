"""How many servers a batch gets on a stack, and what that takes: the planner's arithmetic, within the stack's own limits."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING, Final

from facts.texts import plural
from facts.user_error import UserError
from fleet.batch.stored import Terms
from fleet.plan.question.goals import PlanImpossibleError, parse_hours
from fleet.report.words import format_duration, format_usd
from settings.derived.spending import rates
from workloads.autoscaling import BATCH_COOLDOWN_SECONDS

if TYPE_CHECKING:
    from fleet.batch.planning import Load, OfStack, Option
    from settings.stack import Settings

_SLOWEST_TOKENS_PER_S: Final = 2.0
"""Output tokens a second of one request below which it counts as lost. Assumed: full servers are many times faster."""
_LEAST_REQUEST_SECONDS: Final = 600.0
"""Assumed: a queue, a prompt of a million tokens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits of a run, from its options or the stack file."""

    deadline: str | None
    max_usd: float | None
    servers: int | None
    """Instead of what the limits need."""
    spent: float = 0.0
    """Dollars of earlier runs of the same batch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sized:
    """Servers, hours and dollars of a run."""

    servers: int
    option: Option
    idle_usd: float
    """For servers from the end of the batch until their machines are gone."""
    request_seconds: float
    """Longest time of one request."""

    def text(self, settings: Settings) -> str:
        """A paragraph for the confirmation."""
        option, run = self.option, self.option.run
        # Servers that are there have started.
        start = 0.0 if settings.scales_by_batch else run.start_hours
        took, low, high = (format_duration(3600 * (hours - start)) for hours in (run.total_hours, *option.hours))
        between = "" if low == high else f" ({low} to {high})"
        started = ", start-up included" if settings.scales_by_batch else ""
        cost = "The price is unknown."
        if run.usd is not None and option.usd is not None:
            least = "At least " if option.plan.money.at_least or option.is_bound else ""
            cost = f"{least}{format_usd(run.usd)} ({format_usd(option.usd[0])} to {format_usd(option.usd[1])})"
            cost += f", then {format_usd(self.idle_usd)} until idle machines are gone." if self.idle_usd else "."
        question = option.plan.question
        kept = f"at most {most_servers(settings)}" if settings.scales_by_batch else "those that are there"
        return (
            f"{plural(self.servers, 'server')} ({kept}; {question.machine.type}, {option.capacity} in {question.region}): "
            f"about {took}{between}{started}. {cost}"
        )

    def terms(self, settings: Settings, limits: Limits, *, began: float) -> Terms:
        """What the clients are told. The dollars are those of the stack's own bill."""
        priced, deadline = rates(settings), limits.deadline
        restart = self.option.plan.restart.likely_seconds
        return Terms(
            began=began,
            servers=self.servers,
            deadline=None if deadline is None else began + 3600 * parse_hours(deadline),
            max_usd=limits.max_usd,
            usd_per_server_hour=None if priced.full is None else priced.per_machine,
            usd_per_hour_fixed=priced.fixed,
            start_seconds=restart if settings.scales_by_batch else 0.0,
            idle_seconds=_idle_seconds(settings),
            request_seconds=self.request_seconds,
            on_done=settings.batch.on_done,
        )


def size(fleets: OfStack, load: Load, settings: Settings, asked: Limits) -> Sized:
    """The servers of a run. Raises UserError with what would keep the limits."""
    most = most_servers(settings)
    max_usd = None if asked.max_usd is None else asked.max_usd - asked.spent
    if max_usd is not None and max_usd <= 0:
        raise UserError(
            f"--max-usd {asked.max_usd:g}: earlier runs of this batch cost {format_usd(asked.spent)} already; pass more to go on"
        )
    if not settings.scales_by_batch:
        # Whatever scales them, they are there for others, too.
        if not most:
            raise UserError(
                f"stack {settings.stack} is paused: server.replicas is 0, and no server answers. Write server.scaling.mode: batch, or "
                f"replicas, and run `pulumi up --stack {settings.stack}`"
            )
        if asked.servers is not None:
            raise UserError(
                f"--servers {asked.servers}: only a stack with server.scaling.mode batch starts servers for a batch; this stack has "
                f"{plural(most, 'server')}. Leave --servers out"
            )
        return _sized(_on(fleets, load, most), most, load, settings)
    if asked.servers is not None:
        if asked.servers > most:
            raise UserError(
                f"--servers {asked.servers}: at most {most}, which is server.scaling.max of stack {settings.stack}; "
                f"{_raise(asked.servers, settings)}"
            )
        # A number that was given is shown with its hours and dollars, and not judged.
        return _sized(_on(fleets, load, asked.servers), asked.servers, load, settings)
    try:
        option = fleets.own(load, None)
    except PlanImpossibleError as error:
        raise UserError(f"{error.why}; nearest: {error.nearest}") from None
    servers = option.plan.machines
    if servers > most:
        nearest = _on(fleets, load, most)
        hours = ceil(10 * nearest.hours[1]) / 10
        raise UserError(
            f"--deadline {asked.deadline} needs {servers} servers, and stack {settings.stack} has at most {most}; "
            f"{_raise(servers, settings)}; or pass --deadline {hours:g}h ({plural(most, 'server')}), or --servers {most} without keeping it"
        )
    sized = _sized(option, servers, load, settings)
    if option.misses:
        raise UserError(f"{'; '.join(option.misses)}; pass --servers with more, or use a stack with another capacity")
    if max_usd is not None:
        _require_affordable(sized, max_usd, asked)
    return sized


def _require_affordable(sized: Sized, max_usd: float, asked: Limits) -> None:
    """The whole batch fits into the ceiling: the clients stop before the present servers' idle time exceeds it. Raises UserError."""
    option, servers = sized.option, plural(sized.servers, "server")
    otherwise = "or choose --servers yourself: the batch then stops at the limit, and goes on when it is raised"
    if option.usd is None:
        raise UserError(
            f"--max-usd {asked.max_usd:g}: the price of {servers} is unknown; write `capacity.usdPerNodeHour` in the stack file, "
            f"{otherwise}"
        )
    most = option.usd[1] + sized.idle_usd
    if most > max_usd:
        enough = ceil(100 * (most + asked.spent)) / 100
        before = f" after {format_usd(asked.spent)} so far" if asked.spent else ""
        raise UserError(
            f"--max-usd {asked.max_usd:g}: {servers} may cost {format_usd(most)}{before}, of it {format_usd(sized.idle_usd)} until idle "
            f"machines are gone; pass --max-usd {enough:.2f}, {otherwise}"
        )


def most_servers(settings: Settings) -> int:
    """The most that may run for a batch."""
    return settings.server.scaling.max if settings.scales_by_batch else settings.replicas


def _on(fleets: OfStack, load: Load, servers: int) -> Option:
    try:
        return fleets.on(load, servers, None)
    except PlanImpossibleError as error:
        raise UserError(f"{error.why}; nearest: {error.nearest}") from None


def _sized(option: Option, servers: int, load: Load, settings: Settings) -> Sized:
    return Sized(
        servers=servers,
        option=option,
        idle_usd=servers * rates(settings).per_machine * _idle_seconds(settings) / 3600,
        request_seconds=max(_LEAST_REQUEST_SECONDS, load.longest_output / _SLOWEST_TOKENS_PER_S),
    )


def _idle_seconds(settings: Settings) -> float:
    """From the batch's end until its machines are gone."""
    return float(BATCH_COOLDOWN_SECONDS + settings.placement.idle_seconds) if settings.scales_by_batch else 0.0


def _raise(servers: int, settings: Settings) -> str:
    return f"write `server.scaling.max: {servers}` in Pulumi.{settings.stack}.yaml and run `pulumi up --stack {settings.stack}`"
