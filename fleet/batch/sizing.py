"""How many servers a batch gets on a stack, until when they are paid, and what that takes: the planner's arithmetic, within the stack's
own limits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING, Final, Self

from facts.capacity import FLEX_START_MAX_SECONDS, MAX_GRACE_SECONDS, REMOVAL_SECONDS
from facts.texts import plural
from facts.user_error import UserError
from fleet.batch.stored import Run
from fleet.plan.question.goals import PlanImpossibleError, parse_hours
from fleet.report.words import format_duration, format_moment, format_usd
from settings.derived.scaling import BATCH_DOWN_SECONDS, BATCH_POLL_SECONDS
from settings.derived.spending import rates
from settings.sections.batch import MOST_DAYS
from workloads.batch.job import OVER_SECONDS

if TYPE_CHECKING:
    from fleet.batch.planning import Load, OfStack, Option
    from settings.sections.batch import Batch as Section
    from settings.stack import Settings

_SLOWEST_TOKENS_PER_S: Final = 2.0
"""Output tokens a second of one request below which it counts as lost. Assumed: full servers are many times faster."""
_LEAST_REQUEST_SECONDS: Final = 600.0
"""Assumed: a queue, a prompt of a million tokens."""
_LEAST_SECONDS: Final = 60.0
"""Of a run: what is shorter is none."""


@dataclass(frozen=True, slots=True)
class Limit:
    """A limit and who gave it: an option of this run, else the run before, else the stack file."""

    value: float
    words: str
    """For messages, e.g. `--max-usd 20`."""
    is_kept: bool = False
    """Whether it is that of the run before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a run must keep."""

    now: float
    deadline: Limit | None
    """Epoch seconds. That of the run before does not move."""
    max_usd: Limit | None
    """For the sum of all runs."""
    servers: int | None
    """Instead of what the limits need."""
    kept_servers: int | None
    """Those of the run before, without a deadline."""
    spent: float
    """Dollars of all runs so far, at most."""

    @classmethod
    def of(
        cls,
        *,
        deadline: str | None,
        max_usd: float | None,
        servers: int | None,
        section: Section,
        runs: Sequence[Run],
        now: float,
    ) -> Self:
        """From options, the stack's section and the runs before. Raises ValueError."""
        before = runs[-1] if runs else None
        until = _deadline(deadline, before, section, now)
        return cls(
            now=now,
            deadline=until,
            max_usd=_max_usd(max_usd, before, section),
            servers=servers,
            # Without a deadline the planner takes the fewest: another number was asked for. With one, it plans for the rest.
            kept_servers=before.servers if before is not None and until is None and servers is None else None,
            spent=sum(run.usd(now) for run in runs),
        )

    @property
    def hours_left(self) -> float | None:
        """For the rest; negative after the deadline."""
        return None if self.deadline is None else (self.deadline.value - self.now) / 3600

    def text(self) -> tuple[str, ...]:
        """Lines for the confirmation."""
        spent = f"at most {format_usd(self.spent)} spent so far" if self.spent else ""
        kept = {True: ", as before", False: ""}
        limit = "none" if self.max_usd is None else f"{format_usd(self.max_usd.value)} for all runs"
        limit += kept[self.max_usd is not None and self.max_usd.is_kept] + (f"; {spent}" if spent else "")
        deadline, left = "none", self.hours_left
        if self.deadline is not None and left is not None:
            deadline = f"{format_moment(self.deadline.value)}, in {format_duration(3600 * max(0.0, left))}"
            deadline += kept[self.deadline.is_kept]
        return f"limit:    {limit}", f"deadline: {deadline}"


def _deadline(option: str | None, before: Run | None, section: Section, now: float) -> Limit | None:
    if option is None and before is not None and before.deadline is not None:
        words = f"the deadline of the run before, {format_moment(before.deadline)},"
        return Limit(before.deadline, words, is_kept=True)
    given = option or section.deadline
    if given is None:
        return None
    words = f"--deadline {given}" if option else f"batch.deadline {given}"
    return Limit(now + 3600 * parse_hours(given), words)


def _max_usd(option: float | None, before: Run | None, section: Section) -> Limit | None:
    if option is None and before is not None and before.max_usd is not None:
        return Limit(before.max_usd, f"the limit of the run before, {format_usd(before.max_usd)}", is_kept=True)
    given = section.max_usd if option is None else option
    if given is None:
        return None
    return Limit(given, f"batch.maxUsd {given:g}" if option is None else f"--max-usd {given:g}")


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
            cost = f"About {format_usd(run.usd)} ({format_usd(option.usd[0])} to {format_usd(option.usd[1])})"
            if option.plan.money.at_least:
                cost += " and what has no known price"
            if option.is_bound:
                cost += " or more, as this GPU was never measured"
            cost += f", then {format_usd(self.idle_usd)} until idle machines are gone." if self.idle_usd else "."
        question = option.plan.question
        kept = f"at most {most_servers(settings)}" if settings.scales_by_batch else "those that are there"
        return (
            f"{plural(self.servers, 'server')} ({kept}; {question.machine.type}, {option.capacity} in {question.region}): "
            f"about {took}{between}{started}. {cost}"
        )

    def run(self, settings: Settings, limits: Limits) -> Run:
        """The run, which ends at its deadline, and before its servers can have cost more than is left of its limit. Raises UserError."""
        priced, until = rates(settings), limits.now + 86_400 * MOST_DAYS
        usd_per_hour = None if priced.full is None else self.servers * priced.per_machine + priced.fixed
        if limits.deadline is not None:
            until = min(until, limits.deadline.value)
        if limits.max_usd is not None and usd_per_hour:
            left = limits.max_usd.value - limits.spent - self.idle_usd
            until = min(until, limits.now + 3600 * left / usd_per_hour)
        if until < limits.now + _LEAST_SECONDS:
            raise UserError(
                f"no minute is left for {plural(self.servers, 'server')}: {'; '.join(limits.text())}; pass a later --deadline, or a higher "
                "--max-usd"
            )
        return Run(
            began=limits.now,
            servers=self.servers,
            deadline=None if limits.deadline is None else limits.deadline.value,
            max_usd=None if limits.max_usd is None else limits.max_usd.value,
            usd_per_hour=usd_per_hour,
            idle_usd=self.idle_usd,
            until=until,
        )


def size(fleets: OfStack, load: Load, settings: Settings, asked: Limits) -> Sized:
    """The servers of a run. Raises UserError with what would keep the limits."""
    most, limit = most_servers(settings), asked.max_usd
    if limit is not None and rates(settings).full is None:
        raise UserError(
            f"{limit.words}: the price of a server is unknown, so the batch would never stop for it; write `capacity.usdPerNodeHour` in "
            f"Pulumi.{settings.stack}.yaml, or leave the limit out"
        )
    sized, is_judged = _planned(fleets, load, settings, asked, most)
    if limit is not None:
        _require_affordable(sized, limit, asked, is_judged=is_judged)
    return sized


def _planned(fleets: OfStack, load: Load, settings: Settings, asked: Limits, most: int) -> tuple[Sized, bool]:
    """The servers, and whether their cost must fit into the limit. Raises UserError."""
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
        return _sized(_on(fleets, load, most), most, load, settings), False
    if asked.servers is not None:
        if asked.servers > most:
            raise UserError(
                f"--servers {asked.servers}: at most {most}, which is server.scaling.max of stack {settings.stack}; "
                f"{_raise(asked.servers, settings)}"
            )
        # A number that was given is shown with its hours and dollars, and not judged.
        return _sized(_on(fleets, load, asked.servers), asked.servers, load, settings), False
    if asked.kept_servers is not None:
        kept = min(asked.kept_servers, most)
        return _sized(_on(fleets, load, kept), kept, load, settings), True
    return _for_deadline(fleets, load, settings, asked, most), True


def _for_deadline(fleets: OfStack, load: Load, settings: Settings, asked: Limits, most: int) -> Sized:
    """The fewest servers that keep the deadline. Raises UserError."""
    deadline, left = asked.deadline, asked.hours_left
    if deadline is not None and left is not None and left <= 0:
        raise UserError(
            f"{deadline.words} has passed; pass {_enough_time(fleets, load, most)} from now, or --servers {most} to go on without keeping "
            "one"
        )
    # Then no later deadline helps.
    ends_first = settings.placement.price_key == "flex-start" and (left is None or 3600 * left > FLEX_START_MAX_SECONDS)
    try:
        option = fleets.own(load, left)
    except PlanImpossibleError as error:
        if deadline is None or ends_first or not deadline.is_kept:
            raise UserError(f"{error.why}; nearest: {error.nearest}") from None
        cure = f"pass {_enough_time(fleets, load, most)} from now"
        raise UserError(f"{deadline.words} cannot be kept; {cure}; {error.why}") from None
    servers = option.plan.nodes
    if servers > most:
        more = (
            f"needs {servers} servers, and stack {settings.stack} has at most {most}; {_raise(servers, settings)}; or"
        )
        anyway = f"--servers {most} without keeping it"
        if deadline is None or ends_first:
            raise UserError(f"to end before flex-start ends the servers {more} pass {anyway}")
        raise UserError(f"{deadline.words} {more} pass {_enough_time(fleets, load, most)}, or {anyway}")
    return _sized(option, servers, load, settings)


def _enough_time(fleets: OfStack, load: Load, servers: int) -> str:
    hours = ceil(10 * _on(fleets, load, servers).hours[1]) / 10
    return f"--deadline {hours:g}h ({plural(servers, 'server')})"


def _require_affordable(sized: Sized, limit: Limit, asked: Limits, *, is_judged: bool) -> None:
    """The rest fits into the limit. Raises UserError."""
    is_spent = asked.spent >= limit.value
    if not is_judged and not is_spent:
        return
    usd, servers = sized.option.usd, plural(sized.servers, "server")
    if usd is None:
        raise UserError(
            f"{limit.words}: the price of {servers} is unknown; write `capacity.usdPerNodeHour` in the stack file"
        )
    rest = usd[1] + sized.idle_usd
    enough = ceil(100 * (asked.spent + rest)) / 100
    if not is_spent and enough <= limit.value:
        return
    who = (
        f"the batch cost up to {format_usd(asked.spent)} already, and the rest on {servers}" if asked.spent else servers
    )
    idle = f", of it {format_usd(sized.idle_usd)} until idle machines are gone" if sized.idle_usd else ""
    otherwise = ", or choose --servers yourself: the batch then stops at the limit, and goes on when it is raised"
    raise UserError(
        f"{limit.words}: {who} may cost {format_usd(rest)}{idle}; pass --max-usd {enough:.2f}{'' if is_spent else otherwise}"
    )


def most_servers(settings: Settings) -> int:
    """The most that may run for a batch."""
    return settings.server.scaling.max if settings.scales_by_batch else settings.replicas


def _on(fleets: OfStack, load: Load, servers: int) -> Option:
    try:
        return fleets.on(load, servers)
    except PlanImpossibleError as error:
        raise UserError(f"{error.why}; nearest: {error.nearest}") from None


def _sized(option: Option, servers: int, load: Load, settings: Settings) -> Sized:
    return Sized(
        servers=servers,
        option=option,
        idle_usd=servers * rates(settings).per_machine * idle_seconds(settings) / 3600,
        request_seconds=max(_LEAST_REQUEST_SECONDS, load.longest_output / _SLOWEST_TOKENS_PER_S),
    )


def idle_seconds(settings: Settings) -> float:
    """From the end of the batch's time until its machines are gone, at most: a Job whose pods wait for a node lives on, and KEDA counts
    them; its cooldown begins with its last count. A server then has its grace period to end, and its machine is idle after that.
    """
    if not settings.scales_by_batch:
        return 0.0
    counted = OVER_SECONDS + BATCH_POLL_SECONDS + BATCH_DOWN_SECONDS
    return counted + MAX_GRACE_SECONDS + settings.placement.idle_seconds + REMOVAL_SECONDS


def _raise(servers: int, settings: Settings) -> str:
    return f"write `server.scaling.max: {servers}` in Pulumi.{settings.stack}.yaml and run `pulumi up --stack {settings.stack}`"
