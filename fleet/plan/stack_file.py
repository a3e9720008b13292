"""Write a plan as a stack file, atomically: a dictionary of its sections, dumped."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from facts import prices
from facts.capacity import FLEX_START_MAX_SECONDS, LEAST_USEFUL_SECONDS
from facts.files import write_whole
from facts.finding import Finding
from facts.machines import B200, DEFAULT_MACHINE
from facts.models import CATALOGUE
from facts.names import SCHEMA_FILE
from facts.regions import nearest_region
from facts.sizing import CONNECTIONS_PER_CLIENT
from facts.texts import camel_case, plural
from facts.workloads import countable_name
from fleet.plan.question.fitting import engine_changes
from fleet.plan.question.goals import DEFAULT_REGION, INTERRUPTIBLE
from fleet.plan.question.profiles import profile_facts
from fleet.plan.stack_text import dumped, styled
from fleet.plan.words import format_goal, format_mean_lengths
from fleet.report.words import format_usd
from settings.checks.placeholders import PLACEHOLDER_PROJECT
from settings.load import check, parse
from settings.problems import ArgumentsError, SettingsError

if TYPE_CHECKING:
    from fleet.plan.plan import Plan

POLICY_CONFIG_FOLDER = "policy/config"
"""Folder of each stack's policy limits, read by Pulumi and the offline preview."""
PLACEHOLDER_REVISION: Final = "0" * 40
"""`fleet check` and `pulumi up` refuse placeholders; an offline preview works with them."""
_PLACEHOLDER_RESERVATION: Final = "your-reservation"
_PLACEHOLDER_OWNER: Final = "your-team"
_NAMED = frozenset({"cud-1y", "cud-3y", "reservation", "calendar"})
"""Capacities that require a reservation's name."""
# Assumed: tolerated rise of the bill above the plan, such as one more node or a dearer month of Spot.
_CEILING_MARGIN = 1.05
# Assumed: how much longer than planned a batch may run before flex-start ends its nodes.
_BATCH_MARGIN = 1.5
_MODELINE = f"# yaml-language-server: $schema={SCHEMA_FILE}"
"""For the editor. The installed program's project has no such file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """What a written stack file names besides the plan; None: a placeholder, and a zone of the plan's region."""

    project: str | None = None
    zone: str | None = None


def write_stack(
    root: Path,
    stack: str,
    plan: Plan,
    place: Place = Place(),  # frozen
    *,
    config: Path | None = None,
    heading: str | None = None,
) -> tuple[Path, ...]:
    """Write Pulumi.<stack>.yaml and its spending ceiling for the policies; return the files.

    `config` is the config.json of a model of one's own. `heading` replaces the comment about the goal. The text is checked like
    `fleet check` first. Raises SettingsError for an invalid or missing name, an existing file, or a refused setting.
    """
    if problems := [*_no_zone(plan, place)]:
        raise ArgumentsError(stack, problems)
    own = None if config is None else os.path.relpath(config.resolve(), root.resolve())
    return write_files(root, stack, stack_text(plan, place, config=own, heading=heading), policy_limits(plan))


def write_files(root: Path, stack: str, text: str, limits: str | None) -> tuple[Path, ...]:
    """Write a stack file and its policy config, or nothing. Raises SettingsError as `write_stack` does."""
    path, config = root / f"Pulumi.{stack}.yaml", root / POLICY_CONFIG_FOLDER / f"{stack}.json"
    if problems := [*_in_the_way(root, path, config)]:
        raise ArgumentsError(stack, problems)
    if not (root / SCHEMA_FILE).is_file():
        text = text.removeprefix(f"{_MODELINE}\n#\n")
    _check(root, stack, text)
    write_whole(path, text.encode())
    if limits is None:
        return (path,)
    try:
        config.parent.mkdir(parents=True, exist_ok=True)
        write_whole(config, limits.encode())
    except OSError:
        # Do not leave a stack without its ceiling.
        path.unlink(missing_ok=True)
        raise
    return path, config


def next_commands(root: Path, stack: str, secrets: Iterable[str] = ()) -> Iterator[str]:
    """What to type after a stack file is written. `secrets`: keys that a copy lacks."""
    from settings.stack_file import read

    yield f"fleet preview --stack {stack}"
    yield "pulumi login"
    yield f"pulumi stack init {stack}"
    if read(root, stack).config.get("gcp:project") == PLACEHOLDER_PROJECT:
        yield f"pulumi config set gcp:project MY-PROJECT --stack {stack}"
    for key in secrets:
        yield f"pulumi config set --secret {key} --stack {stack}   (not copied)"
    yield f"fleet check --stack {stack}"
    yield f"fleet doctor --for up --live --stack {stack}"


def policy_limits(plan: Plan) -> str | None:
    """The stack's policy config: a ceiling slightly above the plan's bill, so that a typo in replicas is refused. None without a price."""
    usd = plan.money.usd_per_node_hour
    if usd is None:
        return None
    ceiling = {"maxUsdPerHour": ceil(_CEILING_MARGIN * plan.money.usd_per_hour * 100) / 100}
    if plan.question.usd_per_node_hour is not None or plan.question.capacity in _NAMED:
        # Pods show their reservation but not its negotiated price.
        ceiling["usdPerNodeHour"] = usd
    return json.dumps({"hourly-cost-above-ceiling": ceiling}, indent=2) + "\n"


def stack_text(plan: Plan, place: Place, *, config: str | None = None, heading: str | None = None) -> str:
    """The stack file of a plan: `#` between its sections, as a blank line would vanish with the first `pulumi config set`."""
    about = [heading] if heading is not None else _about(plan)
    sections = [
        dumped({"config": {key: styled(value, 9)}}).removeprefix("config:\n")
        for key, value in _sections(plan, place, config)
    ]
    # Project and region are one section.
    text = "  #\n".join(("".join(sections[:2]), *sections[2:]))
    return "\n".join([_MODELINE, "#", *(f"# {line}" for line in about), f"config:\n{text}"])


def _about(plan: Plan) -> Iterator[str]:
    question, money = plan.question, plan.money
    yield f"Written by `fleet plan` for {format_goal(question)}, {format_mean_lengths(question.workload)}."
    yield (
        f"{plan.performance.total_tokens_per_s.value:,.0f} tok/s at {100 * plan.utilisation:.0f} % of full load, {plan.label}: "
        "docs/planner-model.md."
    )
    if money.usd_per_node_hour is not None:
        least = "At least " if money.at_least else ""
        yield f"{least}{format_usd(money.usd_per_hour)} an hour while running."
    if plan.batch is not None:
        yield f"Finishes after about {plan.batch.total_hours:.1f} hours; then set replicas to 0, or destroy the stack."


def _sections(plan: Plan, place: Place, config: str | None) -> Iterator[tuple[str, Any]]:
    """Each key of the stack file with its value."""
    question, sizing = plan.question, plan.sizing
    zone = _zone(plan, place) or ""
    yield "gcp:project", place.project or PLACEHOLDER_PROJECT
    yield "gcp:region", zone.rpartition("-")[0]
    yield "vllm-fleet:zones", [zone]
    if question.machine != DEFAULT_MACHINE:
        yield "vllm-fleet:machine", question.machine.type
    yield "vllm-fleet:capacity", dict(_capacity(plan))
    throw_away = plan.batch is not None or question.capacity in INTERRUPTIBLE
    yield "vllm-fleet:cluster", {"deletionProtection": not throw_away}
    if question.profile.model != profile_facts(question.profile.name).model:
        yield "vllm-fleet:model", dict(_model(plan, config))
    yield "vllm-fleet:server", dict(_server(plan))
    weights = {"sizeGib": sizing.volume_gib, "throughputMibps": sizing.volume_mibps}
    listed = CATALOGUE.get(question.profile.model)
    # A Hugging Face token of an account that accepted the license.
    yield "vllm-fleet:weights", weights | ({"tokenSecret": "hf-token"} if listed is not None and listed.gated else {})
    # Fewer than the article's 1,000 if responses come fast enough to saturate a client's core.
    each = min(CONNECTIONS_PER_CLIENT, max(1, sizing.benchmark_connections // sizing.benchmark_clients))
    if sizing.benchmark_connections > CONNECTIONS_PER_CLIENT * (sizing.benchmark_clients - 1):
        each = CONNECTIONS_PER_CLIENT
    yield "vllm-fleet:benchmark", {"enabled": False, "connectionsPerClient": each}


def _capacity(plan: Plan) -> Iterator[tuple[str, Any]]:
    question = plan.question
    match capacity := question.capacity:
        case "flex-start":
            yield "mode", capacity
            yield "runDurationSeconds", _run_seconds(plan)
        case "compute-class":
            yield "mode", capacity
            yield "flexStartSeconds", FLEX_START_MAX_SECONDS
        case "calendar":
            yield "mode", capacity
            yield "reservation", _PLACEHOLDER_RESERVATION
        case "reservation" | "cud-1y" | "cud-3y":
            yield "mode", "reservation"
            yield "name", _PLACEHOLDER_RESERVATION
            yield "nodes", plan.nodes
            if capacity != "reservation":
                yield "commitment", capacity
        case _:
            yield "mode", capacity
    if question.usd_per_node_hour is not None:
        yield "usdPerNodeHour", _number(question.usd_per_node_hour)


def _run_seconds(plan: Plan) -> int:
    """The maximum, or longer than the batch: nodes that finish are released."""
    if plan.batch is None:
        return FLEX_START_MAX_SECONDS
    wanted = ceil((plan.batch.total_hours + plan.batch.work_high_hours) * _BATCH_MARGIN) * 3600
    # `fleet check` refuses less.
    least = ceil((plan.time_to_serve.likely_seconds + LEAST_USEFUL_SECONDS) / 3600) * 3600
    return min(FLEX_START_MAX_SECONDS, max(least, wanted))


def _model(plan: Plan, config: str | None) -> Iterator[tuple[str, Any]]:
    """The model, pinned to the catalogue's commit."""
    profile = plan.question.profile
    assert profile.weights_gb is not None
    if config is None:
        yield "id", profile.model
        yield "revision", CATALOGUE[profile.model].revision or PLACEHOLDER_REVISION
        yield "sizeGb", _number(profile.weights_gb)
    else:
        # Where its weights are, and of which commit, a config.json does not say. Its size is computed.
        yield "id", f"{_PLACEHOLDER_OWNER}/{re.sub(r'[^A-Za-z0-9]+', '-', profile.model).strip('-') or 'model'}"
        yield "revision", PLACEHOLDER_REVISION
        yield "sizeGb", _number(ceil(10 * profile.weights_gb) / 10)
        yield "config", config


def _server(plan: Plan) -> Iterator[tuple[str, Any]]:
    question = plan.question
    profile, workload = question.profile, question.workload
    yield "profile", profile.name
    yield "replicas", plan.nodes
    if changes := engine_changes(profile_facts(profile.name), profile):
        yield "engine", {camel_case(name, "-"): value for name, value in changes.items()}
    if question.split_because and question.machine.gpu == B200:  # elsewhere no lesson asks for it
        yield "tensorParallelReason", question.split_because
    needs: dict[str, Any] = {"concurrencyPerReplica": max(1, ceil(plan.in_flight_per_node))}
    if profile.shape.max_model_len_tokens < profile.context_tokens:
        needs["contextTokens"] = profile.shape.max_model_len_tokens
    prompts = workload.input_tokens
    # Lengths that the preview does not use anyway.
    if workload.name is None:
        longest = {"longestInputTokens": prompts.max} if prompts.max > prompts.mean else {}
        outputs = {"outputTokens": _number(workload.output_tokens.mean)}
        needs["requests"] = {"inputTokens": _number(prompts.mean)} | longest | outputs
    elif workload.name != countable_name(profile.workload):
        needs["workload"] = workload.name
    yield "needs", needs


def _number(value: float) -> float:
    """As the engine writes it: whole numbers without a fraction."""
    return int(value) if float(value).is_integer() else value


def region_with(machine: str) -> str:
    """The default region if it has a known zone with the machine, else the first that has one."""
    known = _regions_with(machine)
    return DEFAULT_REGION if DEFAULT_REGION in known or not known else min(known)


def _regions_with(machine: str) -> set[str]:
    return {row.region for row in prices.rows() if row.what == machine and row.zones}


def _zone(plan: Plan, place: Place) -> str | None:
    """The zone given, or one of the plan's region that has the machine; None where none is known."""
    return place.zone or _known_zone(plan.question.machine.type, plan.question.region)


def _known_zone(machine: str, region: str) -> str | None:
    letters = prices.zones(machine, region)
    return f"{region}-{letters[0]}" if letters else None


def _check(root: Path, stack: str, text: str) -> None:
    """Refuse what `fleet check` would refuse, before writing the file; placeholders are refused later."""
    from settings.stack_file import read

    if refused := [one for one in check(parse(stack, read(root, stack, text).config)) if one.severity == "error"]:
        raise SettingsError(stack, refused)


def _no_zone(plan: Plan, place: Place) -> Iterator[Finding]:
    """No zone of the plan's region is known to have the machine, and none was given."""
    machine, region = plan.question.machine.type, plan.question.region
    if _zone(plan, place) is not None:
        return
    known = _regions_with(machine)
    near = (nearest_region(region, known) or region_with(machine)) if known else region
    listing = f"one that `gcloud compute machine-types list --filter=name={machine}` shows"
    yield Finding(
        id="zone-name",
        subject="zone",
        found=None,
        allowed="a zone such as europe-west4-b",
        why=f"no zone of {region} is known to have {machine}",
        write=_known_zone(machine, near) or listing,
    )


def _in_the_way(root: Path, *paths: Path) -> Iterator[Finding]:
    if there := [str(path.relative_to(root)) for path in paths if path.exists()]:
        yield Finding(
            id="stack-file-exists",
            subject="STACK",
            found=" and ".join(there),
            allowed="a stack without these files",
            why="manual changes in them would be lost",
            write=f"another name, or remove {plural(len(there), 'file')} first",
        )
