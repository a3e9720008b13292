"""One session on one node that compares releases of vLLM: the stack's own benchmark, once for each release."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from facts import machines
from facts.finding import Finding
from facts.names import stack_names
from facts.time_to_serve import step_seconds
from fleet.bench.ceiling import above_ceiling
from fleet.plan.benchmark_price import price_of
from fleet.report.outline import Code, Outline, Prose, Section
from fleet.report.table import Cell, Table, numbers, texts
from fleet.report.words import format_usd
from settings import profiles
from settings.checks.declared_server import DeclaredServer
from settings.load import parse
from settings.problems import ArgumentsError, SettingsError
from settings.stack_file import read

if TYPE_CHECKING:
    from fleet.plan.benchmark_price import Price
    from settings.stack import Settings

RELEASES: Final[dict[str, dict[str, Any]]] = {
    "0.18.0": {},
    "0.18.1": {},
    # With the record's prefix caching it is refused: no prompt of the workload can hit the cache.
    "0.33.0": {"enablePrefixCaching": False, "mambaCacheMode": None, "mambaBlockSize": None},
}
"""Engine settings of each release beside its version, for profile `record`."""
REPEATS: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One release's part of the session."""

    version: str
    engine: dict[str, Any]
    price: Price
    start_minutes: float
    """Until the replaced pod is ready on the node that is already there, without a compile cache; weights are read in seconds."""

    @property
    def minutes(self) -> float:
        """Start and benchmark."""
        return self.start_minutes + self.price.minutes

    @property
    def usd(self) -> float | None:
        """Cost of the whole stack meanwhile."""
        return self.price.usd_of(self.minutes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """All runs on a stack."""

    stack: str
    runs: tuple[Run, ...]


def session(folder: Path, stack: str, root: str = "") -> Session:
    """The session on one replica of a stack, with profile `record`. `root`: the option, for commands.

    Raises SettingsError, also for a stack that must not or cannot run it.
    """
    config = dict(read(folder, stack).config)
    if unfit := _unfit(parse(stack, config)):
        raise ArgumentsError(stack, [_another_stack(folder, stack, root, *unfit)])
    given = json.loads(config.get("vllm-fleet:server", "{}"))
    benchmark = {
        "enabled": True,
        "runOnUpdate": False,
        "workload": "article",
        "repeats": REPEATS,
    }
    start = (step_seconds("image-pull") + step_seconds("engines")) / 60
    runs = []
    for version, engine in RELEASES.items():
        server = {**given, "profile": "record", "replicas": 1, "engine": {"version": version, **engine}}
        server.pop("image", None)
        of_release = {
            **config,
            "vllm-fleet:server": json.dumps(server),
            "vllm-fleet:benchmark": json.dumps(benchmark),
        }
        settings = parse(stack, of_release)
        runs.append(Run(version=version, engine=engine, price=price_of(settings), start_minutes=start))
    if blocked := above_ceiling(folder, stack, max(run.price.usd_per_hour or 0 for run in runs)):
        raise SettingsError(stack, [blocked])
    return Session(stack=stack, runs=tuple(runs))


def _unfit(settings: Settings) -> tuple[str, str] | None:
    """What keeps the session off this stack, and why; None if nothing does."""
    record, machine = profiles.profile("record"), settings.machine
    if because := DeclaredServer(settings).why_production:
        return because, "the session replaces the servers three times, and leaves one replica of the last release"
    if settings.server.scaling.mode != "none":
        return (
            f"its replicas follow server.scaling.mode: {settings.server.scaling.mode}",
            "the session needs one replica",
        )
    if machine.type != machines.DEFAULT:
        return (
            f"its machine is {machine.type}",
            f"the record is of {machines.DEFAULT}; another GPU settles nothing about it",
        )
    if (model := settings.serving.model.id) != record.model_id:
        return f"its model is {model}", f"the record is of {record.model_id}; another model settles nothing about it"
    return None


def _another_stack(folder: Path, stack: str, root: str, because: str, why: str) -> Finding:
    names = ("releases", *(f"releases-{number}" for number in range(2, 1_000)))
    taken = stack_names(folder)
    free = next(name for name in names if name not in taken)
    return Finding(
        id="stack-for-releases",
        subject=f"--stack {stack}",
        found=because,
        allowed=f"a stack of its own that is not production: profile record on {machines.DEFAULT}",
        why=why,
        write=f"fleet new {free} --machine {machines.DEFAULT}{root} && fleet bench releases --stack {free}{root}",
    )


def outline(asked: Session, root: str = "") -> Outline:
    """The session as a page: a table of time and price, then the commands of each release."""
    minutes = sum(run.minutes for run in asked.runs)
    costs = [run.usd for run in asked.runs]
    known = [cost for cost in costs if cost is not None]
    least = "at least " if len(known) < len(costs) or any(run.price.at_least for run in asked.runs) else ""
    rows = tuple(
        (run.version, f"{run.start_minutes:.0f}", f"{run.price.minutes:.0f}", _cost(run.usd, least))
        for run in asked.runs
    )
    first, *later = (run.version for run in asked.runs)
    comparisons = tuple(
        f"fleet rollout judge --stack {asked.stack}{root} --results {_folder(first)} {_folder(version)} --out {_folder(version)}-judged"
        for version in later
    )
    return Outline(
        title=f"vllm-fleet / {asked.stack}",
        kind="bench releases",
        verdict=f"about {minutes:.0f} minutes, {_cost(sum(known), least)} once the stack is up",
        head=(
            Prose(
                f"The article's workload with the same prompts, {REPEATS} times for each release, on one node. It settles whether 0.18.1 "
                "serves at most 78 % of the record, and what 0.33.0 serves."
            ),
            Table(
                id="releases",
                caption="Time and cost of each release",
                columns=(*texts("release"), *numbers("start, minutes", "benchmark, minutes"), *texts("cost")),
                rows=tuple(tuple(map(Cell, row)) for row in rows),
            ),
        ),
        body=(
            *(
                Section(title=f"vLLM {run.version}", body=(Code(_commands(asked.stack, run, root)),))
                for run in asked.runs
            ),
            Section(
                title="Answers",
                body=(
                    Prose(
                        f"Each release answered the same prompts at temperature 0. This compares answers and figures with {first}'s from "
                        "the files, when the node is gone:"
                    ),
                    Code(comparisons),
                ),
            ),
        ),
        data={
            "stack": asked.stack,
            "minutes": round(minutes),
            "usd": round(sum(known), 2) if len(known) == len(costs) else None,
            "at_least": bool(least),
            "releases": [
                {
                    "version": run.version,
                    "minutes": round(run.minutes),
                    "usd": None if run.usd is None else round(run.usd, 2),
                }
                for run in asked.runs
            ],
        },
    )


def _cost(usd: float | None, least: str) -> str:
    return "unknown" if usd is None else f"{least}{format_usd(usd)}"


def _commands(stack: str, run: Run, root: str) -> tuple[str, ...]:
    """What to type for one release."""
    settings = {"version": run.version, **run.engine}
    written = "{" + ", ".join(f"{name}: {json.dumps(value)}" for name, value in settings.items()) + "}"
    return (
        f"# Pulumi.{stack}.yaml, server: {{profile: record, replicas: 1, engine: {written}}}",
        f"# Pulumi.{stack}.yaml, benchmark: {{enabled: true, runOnUpdate: false}}",
        f"pulumi up --stack {stack}",
        f"fleet verify --stack {stack}{root}",
        f"fleet rollout answers --stack {stack}{root} --out {_folder(run.version)}",
        f"fleet bench run --stack {stack}{root} --workload article --repeats {REPEATS} --out {_folder(run.version)}/run",
    )


def _folder(version: str) -> str:
    return f"out/releases/{version}"
