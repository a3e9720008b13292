"""How many servers a batch gets on a stack, and what that takes: the planner's arithmetic, within the stack's own limits."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING, Final, Self

from facts.texts import plural
from facts.user_error import UserError
from fleet.batch.stored import Terms
from fleet.plan.question.goals import PlanImpossibleError, parse_hours
from fleet.report.words import format_duration, format_moment, format_usd
from settings.derived.scaling import BATCH_COOLDOWN_SECONDS
from settings.derived.spending import rates

if TYPE_CHECKING:
    from fleet.batch.planning import Load, OfStack, Option
    from settings.sections.batch import Batch as Section
    from settings.stack import Settings

_SLOWEST_TOKENS_PER_S: Final = 2.0
"""Output tokens a second of one request below which it counts as lost. Assumed: full servers are many times faster."""
_LEAST_REQUEST_SECONDS: Final = 600.0
"""Assumed: a queue, a prompt of a million tokens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """A limit and who gave it: an option of this run, else the run before, else the stack file."""

    value: float
    words: str
    """For messages, e.g. `--max-usd 20`."""
    is_kept: bool = False
    """Whether it is that of the run before."""
    replaced: str = ""
    """That of the run before, if this is another."""

    @property
    def beside_before(self) -> str:
        """What the confirmation says of the run before."""
        return ", as before" if self.is_kept else f", instead of {self.replaced}" if self.replaced else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a run must keep."""

    now: float
    deadline: Limit | None = None
    """Hours from the run's begin. Of the run before: epoch seconds, which do not move."""
    max_usd: Limit | None = None
    """For the sum of all runs."""
    servers: int | None = None
    """Instead of what the limits need."""
    kept_servers: int | None = None
    """Those of a batch that runs, or that was begun without a deadline."""
    runs: bool = False
    """Whether its clients work."""
    spent: float = 0.0
    """Dollars so far, of all runs."""

    @classmethod
    def of(
        cls,
        *,
        deadline: str | None,
        max_usd: float | None,
        servers: int | None,
        section: Section,
        before: Terms | None,
        running: int | None,
        spent: float,
        now: float,
    ) -> Self:
        """From options, the stack's section, the terms of the run before, and its servers if its clients work. Raises ValueError."""
        until, kept = _deadline(deadline, before, section), running
        if running is None and before is not None and until is None:
            # Without a deadline the planner takes the fewest: another number was asked for. With one, it plans for the rest.
            kept = before.servers
        return cls(
            now=now,
            deadline=until,
            max_usd=_max_usd(max_usd, before, section),
            servers=servers,
            kept_servers=kept if servers is None and deadline is None else None,
            runs=running is not None,
            spent=spent,
        )

    @property
    def hours_left(self) -> float | None:
        """For the rest; negative after the deadline."""
        if self.deadline is None:
            return None
        return (self.deadline.value - self.now) / 3600 if self.deadline.is_kept else self.deadline.value

    def deadline_at(self, began: float) -> float | None:
        """Epoch seconds."""
        if self.deadline is None:
            return None
        return self.deadline.value if self.deadline.is_kept else began + 3600 * self.deadline.value

    def text(self) -> tuple[str, ...]:
        """Lines for the confirmation."""
        ends, left = self.deadline_at(self.now), self.hours_left
        spent = f"{format_usd(self.spent)} is spent" if self.spent else ""
        if self.max_usd is None:
            limit = f"no limit{f'; {spent} so far' if spent else ''}"
        else:
            limit = f"{format_usd(self.max_usd.value)} for all runs{self.max_usd.beside_before}{f', of which {spent}' if spent else ''}"
        if self.deadline is None or ends is None or left is None:
            deadline = "no deadline"
        elif left <= 0:
            deadline = f"{format_moment(ends)}, which has passed; --deadline 8h is counted from now"
        else:
            deadline = f"{format_moment(ends)}, in {format_duration(3600 * left)}{self.deadline.beside_before}"
        return f"limit:    {limit}", f"deadline: {deadline}"


def _deadline(option: str | None, before: Terms | None, section: Section) -> Limit | None:
    if option is not None:
        replaced = "" if before is None or before.deadline is None else format_moment(before.deadline)
        return Limit(value=parse_hours(option), words=f"--deadline {option}", replaced=replaced)
    if before is not None and before.deadline is not None:
        words = f"the deadline of the run before, {format_moment(before.deadline)},"
        return Limit(value=before.deadline, words=words, is_kept=True)
    if section.deadline is not None:
        return Limit(value=parse_hours(section.deadline), words=f"batch.deadline {section.deadline}")
    return None


def _max_usd(option: float | None, before: Terms | None, section: Section) -> Limit | None:
    if option is not None:
        replaced = "" if before is None or before.max_usd in (None, option) else format_usd(before.max_usd or 0.0)
        return Limit(value=option, words=f"--max-usd {option:g}", replaced=replaced)
    if before is not None and before.max_usd is not None:
        words = f"the limit of the run before, {format_usd(before.max_usd)}"
        return Limit(value=before.max_usd, words=words, is_kept=True)
    if section.max_usd is not None:
        return Limit(value=section.max_usd, words=f"batch.maxUsd {section.max_usd:g}")
    return None


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

    def terms(self, settings: Settings, limits: Limits, *, began: float) -> Terms:
        """What the clients are told. The dollars are those of the stack's own bill."""
        priced = rates(settings)
        restart = self.option.plan.restart.likely_seconds
        return Terms(
            began=began,
            servers=self.servers,
            deadline=limits.deadline_at(began),
            max_usd=None if limits.max_usd is None else limits.max_usd.value,
            usd_per_server_hour=None if priced.full is None else priced.per_machine,
            usd_per_hour_fixed=priced.fixed,
            start_seconds=restart if settings.scales_by_batch else 0.0,
            idle_seconds=_idle_seconds(settings),
            request_seconds=self.request_seconds,
            on_done=settings.batch.on_done,
        )


def size(fleets: OfStack, load: Load, settings: Settings, asked: Limits) -> Sized:
    """The servers of a run. Raises UserError with what would keep the limits."""
    most, limit = most_servers(settings), asked.max_usd
    if limit is not None and rates(settings).full is None:
        raise UserError(
            f"{limit.words}: the price of a server is unknown, so the batch would never stop for it; write `capacity.usdPerNodeHour` in "
            f"Pulumi.{settings.stack}.yaml{'' if limit.is_kept else ', or leave the limit out'}"
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
        kept = asked.kept_servers if asked.runs else min(asked.kept_servers, most)
        # What runs was agreed to: only another limit is judged.
        is_judged = not (asked.runs and asked.max_usd is not None and asked.max_usd.is_kept)
        return _sized(_on(fleets, load, kept), kept, load, settings), is_judged
    return _for_deadline(fleets, load, settings, asked, most), True


def _for_deadline(fleets: OfStack, load: Load, settings: Settings, asked: Limits, most: int) -> Sized:
    """The fewest servers that keep the deadline. Raises UserError."""
    deadline, left = asked.deadline, asked.hours_left
    if deadline is not None and left is not None and left <= 0:
        raise UserError(
            f"{deadline.words} has passed; pass {_enough_time(fleets, load, most)} from now, or --servers {most} to go on without keeping "
            "one"
        )
    try:
        option = fleets.own(load, left)
    except PlanImpossibleError as error:
        if deadline is None or not deadline.is_kept:
            raise UserError(f"{error.why}; nearest: {error.nearest}") from None
        cure = f"pass {_enough_time(fleets, load, most)} from now"
        raise UserError(f"{deadline.words} cannot be kept; {cure}; {error.why}") from None
    servers = option.plan.nodes
    if servers > most and deadline is not None:
        raise UserError(
            f"{deadline.words} needs {servers} servers, and stack {settings.stack} has at most {most}; {_raise(servers, settings)}; or "
            f"pass {_enough_time(fleets, load, most)}, or --servers {most} without keeping it"
        )
    if option.misses:
        raise UserError(f"{'; '.join(option.misses)}; pass --servers with more, or use a stack with another capacity")
    return _sized(option, servers, load, settings)


def _enough_time(fleets: OfStack, load: Load, servers: int) -> str:
    hours = ceil(10 * _on(fleets, load, servers).hours[1]) / 10
    return f"--deadline {hours:g}h ({plural(servers, 'server')})"


def _require_affordable(sized: Sized, limit: Limit, asked: Limits, *, is_judged: bool) -> None:
    """The rest fits into the limit: the clients stop before the present servers' idle time exceeds it. Raises UserError."""
    # What runs under the limit that it had stops by itself.
    is_spent = asked.spent >= limit.value and not (asked.runs and limit.is_kept)
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
    who = f"the batch cost {format_usd(asked.spent)} already, and the rest on {servers}" if asked.spent else servers
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
        idle_usd=servers * rates(settings).per_machine * _idle_seconds(settings) / 3600,
        request_seconds=max(_LEAST_REQUEST_SECONDS, load.longest_output / _SLOWEST_TOKENS_PER_S),
    )


def _idle_seconds(settings: Settings) -> float:
    """From the batch's end until its machines are gone."""
    return float(BATCH_COOLDOWN_SECONDS + settings.placement.idle_seconds) if settings.scales_by_batch else 0.0


def _raise(servers: int, settings: Settings) -> str:
    return f"write `server.scaling.max: {servers}` in Pulumi.{settings.stack}.yaml and run `pulumi up --stack {settings.stack}`"
