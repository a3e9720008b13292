"""The session that splits a gateway's loss: what to set, what to run, how long it takes and what it costs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from facts import machines
from facts.finding import Finding
from facts.names import stack_names
from facts.time_to_serve import step_seconds
from fleet.bench.ceiling import above_ceiling
from fleet.bench.gateway_loss.variants import DIRECT, REPEATS, VARIANTS, WORKLOAD, State, Variant
from fleet.plan.benchmark_price import price_of
from fleet.plan.stack_text import flow
from fleet.report.outline import Code, Outline, Prose, Section
from fleet.report.table import Cell, Table, numbers, texts
from fleet.report.words import format_usd
from settings.checks.declared_server import DeclaredServer
from settings.load import check, parse
from settings.problems import ArgumentsError, SettingsError
from settings.stack_file import read

if TYPE_CHECKING:
    from fleet.plan.benchmark_price import Price
    from settings.stack import Settings

LEAST_REPLICAS: Final = 2
"""With one there is nothing to pick. Also the default: the article lost 31 % on two nodes."""
_REMOVE_ROUTER: Final = " Remove `endpoint.router` as well: without routers it is refused."


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One measurement of the session."""

    variant: Variant
    price: Price
    update_minutes: float
    """Until the changed stack serves: load balancer, picker, or servers that restart on nodes that are there. 0 without a change."""

    @property
    def minutes(self) -> float:
        """Update and benchmark."""
        return self.update_minutes + self.price.minutes

    @property
    def usd(self) -> float | None:
        """Cost of the whole stack meanwhile."""
        return self.price.usd_of(self.minutes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """All measurements on a stack."""

    stack: str
    replicas: int
    server: dict[str, Any]
    """Sections of the stack file."""
    gateway: dict[str, Any]
    has_router: bool
    """Whether the stack's section `endpoint` has routers, which the session's leave out."""
    steps: tuple[Step, ...]
    restore_minutes: float
    """Until the stack is as it was, without nodes for further replicas."""

    @property
    def minutes(self) -> float:
        """All steps, and the restored stack."""
        return sum(step.minutes for step in self.steps) + self.restore_minutes

    @property
    def restore_usd(self) -> float | None:
        """Cost of the whole stack meanwhile."""
        return self.steps[-1].price.usd_of(self.restore_minutes)

    @property
    def usd(self) -> float | None:
        """Cost of all that has a price; None if nothing has."""
        known = [cost for cost in (*(step.usd for step in self.steps), self.restore_usd) if cost is not None]
        return sum(known) if known else None


def session(folder: Path, stack: str, replicas: int = LEAST_REPLICAS, root: str = "") -> Session:
    """The session on that many replicas of a stack. `root`: the option, for commands.

    Raises SettingsError, also for a stack that must not or cannot run it.
    """
    config = dict(read(folder, stack).config)
    declared = parse(stack, config)
    if unfit := _unfit(declared, replicas):
        raise ArgumentsError(stack, [_another_stack(folder, stack, root, *unfit)])
    server, gateway = (json.loads(config.get(f"vllm-fleet:{name}", "{}")) for name in ("server", "gateway"))
    server = {**server, "replicas": replicas}
    steps = []
    before: State | None = None
    for variant in VARIANTS:
        changed = {
            "server": {**server, "engine": variant.engine(server.get("engine", {}))},
            "gateway": variant.gateway(gateway),
            "endpoint": variant.endpoint(),
            "benchmark": _benchmark(variant),
        }
        settings = parse(
            stack, {**config, **{f"vllm-fleet:{name}": json.dumps(value) for name, value in changed.items()}}
        )
        if refused := [one for one in check(settings) if one.severity == "error"]:
            raise SettingsError(stack, refused)
        steps.append(Step(variant=variant, price=price_of(settings), update_minutes=_update(before, variant.state)))
        before = variant.state
    if blocked := above_ceiling(folder, stack, max(step.price.usd_per_hour or 0 for step in steps)):
        raise SettingsError(stack, [blocked])
    return Session(
        stack=stack,
        replicas=replicas,
        server=server,
        gateway=gateway,
        has_router="router" in declared.endpoint.model_fields_set,
        steps=tuple(steps),
        restore_minutes=_update(before, State(declared.routing, declared.serving.engine.stream_interval)),
    )


def _benchmark(variant: Variant) -> dict[str, Any]:
    return {
        "enabled": True,
        "runOnUpdate": False,
        "workload": WORKLOAD,
        "repeats": REPEATS,
        **({} if variant.streamed else {"streamed": False}),
    }


def _update(before: State | None, after: State) -> float:
    """Minutes; the stack is up with the first variant's settings when the session starts."""
    if before is None:
        return 0.0
    restart = (step_seconds("image-pull") + step_seconds("engines")) / 60
    door = step_seconds("gateway") / 60
    parts = (
        restart if before.stream_interval != after.stream_interval else 0,
        door if before.routing != after.routing else 0,
    )
    return max(parts)


def _unfit(settings: Settings, replicas: int) -> tuple[str, str] | None:
    """What keeps the session off this stack, and why; None if nothing does."""
    if because := DeclaredServer(settings).why_production:
        return because, "the session replaces servers and gateway, and takes their whole capacity for an hour"
    if settings.server.scaling.mode != "none":
        return (
            f"its replicas follow server.scaling.mode: {settings.server.scaling.mode}",
            f"the session needs {replicas}",
        )
    if settings.rollout.canary is not None:
        return "it has a canary", "the canary would take a part of the requests"
    if settings.gateway.has_llm_d:
        return (
            f"its picker is gateway.epp.release: {settings.gateway.epp.release}",
            "the session splits the loss of the article's picker; of llm-d's there are no random picks to compare with",
        )
    apart = {
        "server.shape": settings.server.shape is not None,
        "server.prefillNodes": settings.server.prefill_nodes is not None,
        "server.rankPorts": settings.server.rank_ports,
    }
    if tied := next((name for name, has in apart.items() if has), None):
        return (
            f"it has {tied}, which needs an endpoint of its own",
            "half of the measurements go through the Service, without an endpoint",
        )
    return None


def _another_stack(folder: Path, stack: str, root: str, because: str, why: str) -> Finding:
    names = ("gateway-loss", *(f"gateway-loss-{number}" for number in range(2, 1_000)))
    taken = stack_names(folder)
    free = next(name for name in names if name not in taken)
    return Finding(
        id="stack-for-gateway-loss",
        subject=f"--stack {stack}",
        found=because,
        allowed="a stack of its own that is not production, with a fixed number of replicas, without canary, llm-d's picker, prefill "
        "apart and rank ports",
        why=why,
        write=f"fleet new {free} --machine {machines.DEFAULT}{root}",
    )


def outline(asked: Session, root: str = "") -> Outline:
    """The session as a page: a table of time and price, then the commands in their order."""
    priced = all(step.usd is not None for step in asked.steps)
    least = "" if priced and not any(step.price.at_least for step in asked.steps) else "at least "
    rows = (
        (
            step.variant.id,
            step.variant.title,
            f"{step.update_minutes:.0f}",
            f"{step.price.minutes:.0f}",
            _cost(step.usd, least),
        )
        for step in asked.steps
    )
    restored = (
        "restore",
        "the stack as it was",
        f"{asked.restore_minutes:.0f}",
        "-",
        _cost(asked.restore_usd, least),
    )
    return Outline(
        title=f"vllm-fleet / {asked.stack}",
        kind="bench gateway-loss",
        verdict=f"about {asked.minutes:.0f} minutes on {asked.replicas} replicas, {_cost(asked.usd, least)} "
        "once the stack is up",
        head=(
            Prose(
                "How much throughput the gateway costs, and what of it. Each part is the difference of two measurements; settings that "
                "change the servers' own speed have a measurement without the gateway, too. Each section below replaces the one in the "
                f"stack file; the last step restores the file.{_REMOVE_ROUTER if asked.has_router else ''}"
            ),
            Table(
                id="runs",
                caption="Time and cost of each step",
                columns=(
                    *texts("step", "what it is"),
                    *numbers("update, minutes", "benchmark, minutes"),
                    *texts("cost"),
                ),
                rows=tuple(tuple(map(Cell, row)) for row in (*rows, restored)),
            ),
        ),
        body=(
            *_steps(asked, root),
            Section(
                title="The stack as it was",
                body=(
                    Code((f"mv {_kept(asked.stack)} Pulumi.{asked.stack}.yaml", f"pulumi up --stack {asked.stack}")),
                ),
            ),
            Section(
                title="The split",
                body=(
                    Code((f"fleet bench gateway-loss --stack {asked.stack}{root} --results {results(asked.stack)}",)),
                ),
            ),
        ),
        data={
            "stack": asked.stack,
            "replicas": asked.replicas,
            "minutes": round(asked.minutes),
            "usd": _rounded(asked.usd) if priced else None,
            "at_least": bool(least),
            "measurements": [
                {
                    "id": step.variant.id,
                    "minutes": round(step.minutes),
                    "usd": _rounded(step.usd),
                }
                for step in asked.steps
            ],
            "restore": {"minutes": round(asked.restore_minutes), "usd": _rounded(asked.restore_usd)},
        },
    )


def results(stack: str) -> str:
    """Folder of a stack's measurements."""
    return f"out/gateway-loss/{stack}"


def _kept(stack: str) -> str:
    """The stack file as it was before the session."""
    return f"Pulumi.{stack}.yaml.before"


def _cost(usd: float | None, least: str) -> str:
    return "unknown" if usd is None else f"{least}{format_usd(usd)}"


def _rounded(usd: float | None) -> float | None:
    return None if usd is None else round(usd, 2)


def _steps(asked: Session, root: str) -> Iterator[Section]:
    """What to write and type, a section for each state of the stack."""
    for number, (_, group) in enumerate(groupby(asked.steps, key=lambda step: step.variant.state), 1):
        steps = list(group)
        variant = steps[0].variant
        sections = {
            "gateway": variant.gateway(asked.gateway),
            "endpoint": variant.endpoint(),
            "server": {**asked.server, "engine": variant.engine(asked.server.get("engine", {}))},
        }
        if not sections["server"]["engine"]:
            del sections["server"]["engine"]
        if variant == DIRECT:
            sections["benchmark"] = _benchmark(variant)
        # A session that starts again keeps the file from before the first one.
        keeping = (f"cp -n Pulumi.{asked.stack}.yaml {_kept(asked.stack)}",) if variant == DIRECT else ()
        written = (f"# Pulumi.{asked.stack}.yaml, {name}: {flow(value)}" for name, value in sections.items())
        runs = (
            f"fleet bench run --stack {asked.stack}{root}{'' if step.variant.streamed else ' --not-streamed'} "
            f"--out {results(asked.stack)}/{step.variant.id}"
            for step in steps
        )
        yield Section(
            title=f"{number}. {variant.title}",
            body=(Code((*keeping, *written, f"pulumi up --stack {asked.stack}", *runs)),),
        )
