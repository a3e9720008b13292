"""Write a plan as a stack file with commented values, atomically."""

from __future__ import annotations

import dataclasses
import json
import os
import re
from collections.abc import Iterable, Iterator
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING

from facts import prices
from facts.capacity import FLEX_START_MAX_SECONDS, LEAST_USEFUL_SECONDS
from facts.files import write_whole
from facts.finding import Finding
from facts.machines import DEFAULT_MACHINE
from facts.models import CATALOGUE
from facts.names import SCHEMA_FILE
from facts.regions import nearest_region
from facts.sizing import CONNECTIONS_PER_CLIENT
from facts.texts import camel_case, plural
from facts.workloads import Workload, countable_name
from fleet.plan.asked import Place
from fleet.plan.question.fitting import engine_changes
from fleet.plan.question.goals import DEFAULT_REGION, INTERRUPTIBLE, MOST_MACHINES, Batch, Budget
from fleet.plan.question.profiles import profile_facts
from fleet.plan.routers import routers_for
from fleet.plan.words import format_goal, format_mean_lengths
from fleet.report.words import format_usd
from settings.checks.placeholders import PLACEHOLDER_PROJECT
from settings.load import check, parse
from settings.problems import ArgumentsError, SettingsError

if TYPE_CHECKING:
    from fleet.plan.plan import Plan

POLICY_CONFIG_FOLDER = "policy/config"
"""Folder of each stack's policy limits, read by Pulumi and the offline preview."""
_STACK = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,99}")
_RESERVATION = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")
_PROJECT = re.compile(r"[a-z][-a-z0-9]{4,28}[a-z0-9]")
_NAMED = frozenset({"cud-1y", "cud-3y", "reservation", "calendar"})
"""Capacities that require a reservation's name."""
# Assumed: tolerated rise of the bill above the plan, such as one more node or a dearer month of Spot.
_CEILING_MARGIN = 1.05
# Assumed: how much longer than planned a batch may run before flex-start ends its nodes.
_BATCH_MARGIN = 1.5
_ANYWHERE = Place()
_APART = "  #"
"""Separates sections. A blank line would vanish with the first `pulumi config set`: the engine writes the file anew."""
_MODELINE = f"# yaml-language-server: $schema={SCHEMA_FILE}"
"""For the editor. The installed program's project has no such file."""


def write_stack(
    root: Path,
    stack: str,
    plan: Plan,
    place: Place = _ANYWHERE,
    *,
    config: Path | None = None,
    replace: bool = False,
    heading: str | None = None,
) -> tuple[Path, ...]:
    """Write Pulumi.<stack>.yaml and its spending ceiling for the policies; return the files.

    `config` is the config.json of a model of one's own. `heading` replaces the comment about the goal. The text is checked like
    `fleet check` first. Raises SettingsError for an invalid or missing name, an existing file without `replace`, or a refused setting.
    """
    problems = [
        *_wrong_names(stack, plan, place),
        *wrong_project(place.project),
        *_wrong_model(plan, place, config),
    ]
    if problems:
        raise ArgumentsError(stack, problems)
    limits = policy_limits(plan)
    return write_files(
        root, stack, stack_text(plan, place, config=_from(root, config), heading=heading), limits, replace=replace
    )


def write_files(root: Path, stack: str, text: str, limits: str | None, *, replace: bool) -> tuple[Path, ...]:
    """Write a stack file and its policy config, or nothing. Raises SettingsError as `write_stack` does."""
    path, config = root / f"Pulumi.{stack}.yaml", root / POLICY_CONFIG_FOLDER / f"{stack}.json"
    if problems := [*wrong_stack(stack), *([] if replace else _in_the_way(root, path, config))]:
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
    if plan.money.usd_per_node_hour is None:
        return None
    return json.dumps({"hourly-cost-above-ceiling": _ceiling(plan)}, indent=2) + "\n"


def _ceiling(plan: Plan) -> dict[str, float]:
    ceiling: dict[str, float] = {"maxUsdPerHour": ceil(_CEILING_MARGIN * plan.money.usd_per_hour * 100) / 100}
    usd = plan.money.usd_per_node_hour
    if usd is not None and (plan.question.usd_per_node_hour is not None or plan.question.capacity in _NAMED):
        # Pods show their reservation but not its negotiated price.
        ceiling["usdPerNodeHour"] = usd
    return ceiling


def stack_text(plan: Plan, place: Place = _ANYWHERE, *, config: str | None = None, heading: str | None = None) -> str:
    """The stack file of a plan, as text."""
    about = _about(plan) if heading is None else (f"# {heading}",)
    lines = [_MODELINE, "#", *about, *_place(plan, place), *_capacity(plan, place.reservation), *_cluster(plan)]
    if plan.question.routing == "inference-gateway":
        lines += _gateway(plan)
    if plan.question.routers:
        lines += _endpoint(plan)
    return (
        "\n".join(
            [
                *lines,
                *_model(plan, place, config),
                *_server(plan),
                *_weights(plan, place.token_secret),
                *_budget(plan),
                *_benchmark(plan),
            ]
        )
        + "\n"
    )


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


def _zone_option(machine: str, region: str) -> str:
    """What to pass for a zone with the machine: one of the region, else of the nearest region that has one, else where to look."""
    if zone := _known_zone(machine, region):
        return f"--zone {zone}"
    if known := _regions_with(machine):
        near = nearest_region(region, known) or region_with(machine)
        return f"--zone {_known_zone(machine, near)}, in region {near}"
    return f"--zone with one that `gcloud compute machine-types list --filter=name={machine}` shows"


def _about(plan: Plan) -> Iterator[str]:
    question, money = plan.question, plan.money
    yield f"# Written by `fleet plan` for {_goal(plan)}."
    yield (
        f"# Mean request: {format_mean_lengths(question.workload)}. Confidence: {plan.label}, see docs/planner-model.md."
    )
    total, output = plan.performance.total_tokens_per_s, plan.performance.output_tokens_per_s
    nodes = plural(plan.nodes, "node")
    yield f"# {total.value:,.0f} tok/s total, {output.value:,.0f} output on {nodes}."
    if money.usd_per_node_hour is not None:
        least = "At least " if money.at_least else ""
        yield f"# {least}{format_usd(money.usd_per_hour)} an hour while running."
    if plan.batch is not None:
        yield f"# Finishes after about {plan.batch.total_hours:.1f} hours; then set replicas to 0, or destroy the stack."


def _goal(plan: Plan) -> str:
    question = plan.question
    if isinstance(question.goal, Budget | Batch):
        return format_goal(question)
    return f"{format_goal(question)}, at up to {100 * question.load_share:.0f} % of modeled full load"


def _place(plan: Plan, place: Place) -> Iterator[str]:
    zone = _zone(plan, place) or ""
    yield "config:"
    if place.project is None:
        yield f"  gcp:project: {PLACEHOLDER_PROJECT}"
    else:
        yield f"  gcp:project: {place.project}"
    yield f"  gcp:region: {zone.rpartition('-')[0]}"
    yield _APART
    machine = plan.question.machine
    what = machine.family.upper() if machine == DEFAULT_MACHINE else machine.type
    yield f"  # Zone with {what} capacity: gcloud compute accelerator-types list --filter=name={machine.accelerator}"
    yield f'  vllm-fleet:zones: ["{zone}"]'
    if machine != DEFAULT_MACHINE:
        yield f"  vllm-fleet:machine: {machine.type} # {machine.gpus} x {machine.gpu.name}"
    yield _APART


def _capacity(plan: Plan, reservation: str | None) -> Iterator[str]:
    question = plan.question
    capacity, machines, gpus = question.capacity, plan.machines, plan.gpus
    if capacity in ("spot", "flex-start", "ladder"):
        yield f"  # Needs preemptible {question.machine.gpu.name} quota for {plural(gpus, 'GPU')}."
    elif capacity == "on-demand":
        yield f"  # Needs {question.machine.gpu.name} quota for {plural(gpus, 'GPU')}."
    elif capacity == "calendar":
        yield f"  # A reservation of {machines:,} {question.machine.type}, requested beforehand: docs/google-cloud.md."
    else:
        yield f"  # A commitment is only a price. The reservation must hold {machines:,} {question.machine.type}."
    yield "  vllm-fleet:capacity:"
    match capacity:
        case "on-demand" | "spot":
            yield f"    mode: {capacity}"
        case "flex-start":
            yield "    mode: flex-start"
            seconds, why = _run_seconds(plan)
            yield f"    runDurationSeconds: {seconds} # {why}"
        case "ladder":
            yield "    mode: ladder"
            if reservation is not None:
                yield f"    reservation: {{name: {reservation}}}"
            elif "reservation" in question.machine.ways:
                yield "    # reservation: {name: NAME} # the first rung, if you have one"
            yield f"    flexStartSeconds: {FLEX_START_MAX_SECONDS} # the maximum, seven days"
        case "calendar":
            yield "    mode: calendar"
            yield f"    reservation: {reservation}"
        case "reservation" | "cud-1y" | "cud-3y":
            yield "    mode: reservation"
            yield f"    name: {reservation}"
            yield f"    nodes: {machines} # billed whether used or not"
            if capacity != "reservation":
                yield f"    commitment: {capacity}"
    if question.usd_per_node_hour is not None:
        yield f"    usdPerNodeHour: {question.usd_per_node_hour:g} # passed to fleet plan"
    yield _APART


def _run_seconds(plan: Plan) -> tuple[int, str]:
    if plan.batch is None:
        return FLEX_START_MAX_SECONDS, "the maximum, seven days; then the nodes end"
    wanted = ceil((plan.batch.total_hours + plan.batch.work_high_hours) * _BATCH_MARGIN) * 3600
    # `fleet check` refuses less.
    least = ceil((plan.time_to_serve.likely_seconds + LEAST_USEFUL_SECONDS) / 3600) * 3600
    seconds = min(FLEX_START_MAX_SECONDS, max(least, wanted))
    return seconds, "longer than the batch; nodes that finish are released"


def _cluster(plan: Plan) -> Iterator[str]:
    throw_away = plan.batch is not None or plan.question.capacity in INTERRUPTIBLE
    yield "  vllm-fleet:cluster:"
    if throw_away:
        yield "    deletionProtection: false # true if others depend on the cluster"
    else:
        yield "    deletionProtection: true # `pulumi destroy` refuses until this is false"
    yield _APART


def _gateway(plan: Plan) -> Iterator[str]:
    advice = plan.sizing.gateway
    if not advice.use:
        yield "  # Not recommended for this plan: docs/plan.md."
    yield "  vllm-fleet:gateway:"
    yield "    enabled: true"
    yield "    epp:"
    yield "      cpu: 10 # the default crashed at 8,000 connections"
    yield "      memoryGib: 16"
    yield "      replicas: 1 # more replicas are standby and add no throughput"
    yield _APART


def _endpoint(plan: Plan) -> Iterator[str]:
    found = routers_for(plan)
    assert found is not None  # such a plan is impossible
    yield "  vllm-fleet:endpoint:"
    yield "    kind: leastRequest"
    yield "    router: # for full load by measured processor time; one may be away"
    yield f"      replicas: {found.replicas}"
    yield f"      cpu: {found.cpu}"
    yield f"      memoryGib: {found.memory_gib}"
    yield _APART


def _server(plan: Plan) -> Iterator[str]:
    profile, spares = plan.question.profile, plan.spares
    machine = plan.question.machine
    one = f"one {machine.family.upper()} node ({machine.gpus}x {machine.gpu.name}) each"
    of = f"{plan.nodes:,} required, {spares:,} spare" if spares else one
    named = profile_facts(profile.name)
    yield "  vllm-fleet:server:"
    yield f"    profile: {profile.name} # {profile.title}"
    yield f"    replicas: {plan.machines} # {of}; 0 pauses the fleet"
    if changes := engine_changes(named, profile):
        yield "    engine: # differences from the profile"
        for name, value in changes.items():
            yield f"      {camel_case(name, '-')}: {json.dumps(value)}"
    if plan.question.compile_cache:
        yield "    compileCache: {enabled: true} # later replicas reuse compiled kernels"
    yield "    needs:"
    yield f"      concurrencyPerReplica: {max(1, ceil(plan.in_flight_per_node))} # planned maximum of requests in flight"
    context = profile.shape.max_model_len_tokens
    if context < profile.context_tokens:
        yield f"      contextTokens: {context} # as much as the model and its GPUs allow"
    yield from _requests(plan.question.workload, profile.workload)
    yield _APART


def _requests(workload: Workload, usual: str) -> Iterator[str]:
    """The planned request lengths, unless they are those that the preview uses anyway."""
    if workload.name == countable_name(usual):
        return
    if workload.name is not None:
        yield f"      workload: {workload.name} # planned request lengths"
        return
    prompts, answers = workload.input_tokens, workload.output_tokens
    yield "      requests: # planned lengths"
    yield f"        inputTokens: {prompts.mean:g}"
    if prompts.max > prompts.mean:
        yield f"        longestInputTokens: {prompts.max}"
    yield f"        outputTokens: {answers.mean:g}"


def _model(plan: Plan, place: Place, config: str | None) -> Iterator[str]:
    """The model, pinned to the stated commit or the catalogue's. Revisions are quoted: some are numbers to YAML."""
    profile = plan.question.profile
    if profile.model == profile_facts(profile.name).model:
        return
    yield "  vllm-fleet:model:"
    yield f"    id: {place.repository or profile.model}"
    yield f"    revision: {json.dumps(place.revision or CATALOGUE[profile.model].revision)}"
    assert profile.weights_gb is not None
    if config is None:
        yield f"    sizeGb: {profile.weights_gb:g}"
    else:
        yield f"    sizeGb: {ceil(10 * profile.weights_gb) / 10} # computed from config.json; the repository's file list has the exact size"
        yield f"    config: {json.dumps(config)}"
        yield "    # Name the parsers of reasoning and tool calls, if it has any: docs/own-model.md."
        yield "    # reasoningParser: qwen3"
        yield "    # toolCallParser: hermes"
    yield _APART


def _from(root: Path, config: Path | None) -> str | None:
    """A file's path as the stack file in `root` has it."""
    if config is None:
        return None
    return os.path.relpath(config.resolve(), root.resolve())


def _weights(plan: Plan, token_secret: str | None) -> Iterator[str]:
    sizing, weights_gb = plan.sizing, plan.question.profile.weights_gb
    assert weights_gb is not None
    read = next((step for step in plan.time_to_serve.steps if step.id == "weights-read"), None)
    seconds = f" in about {read.likely_seconds:.0f} s" if read is not None else ""
    readers = "one reader" if plan.machines == 1 else f"{plan.machines:,} readers in parallel"
    yield f"  # {weights_gb:g} GB for {readers}{seconds}."
    yield "  vllm-fleet:weights:"
    yield f"    sizeGib: {sizing.volume_gib}"
    yield f"    throughputMibps: {sizing.volume_mibps}"
    model = CATALOGUE.get(plan.question.profile.model)
    if token_secret is not None:
        yield f"    tokenSecret: {token_secret} # in Secret Manager: a Hugging Face token that may read the repository"
    elif model is not None and model.gated:
        yield "    tokenSecret: hf-token # in Secret Manager: a Hugging Face token of an account that accepted the license"
    yield _APART


def _benchmark(plan: Plan) -> Iterator[str]:
    sizing = plan.sizing
    yield (
        f"  # To verify the plan: {sizing.benchmark_clients:,} or more clients on a {sizing.benchmark_machine}. "
        "The benchmark takes capacity from users."
    )
    yield "  vllm-fleet:benchmark:"
    yield "    enabled: false"
    # Fewer than the article's 1,000 if responses come fast enough to saturate a client's core.
    each = min(CONNECTIONS_PER_CLIENT, max(1, sizing.benchmark_connections // sizing.benchmark_clients))
    if sizing.benchmark_connections <= CONNECTIONS_PER_CLIENT * (sizing.benchmark_clients - 1):
        yield f"    connectionsPerClient: {each} # more would load a client's core above 50 %"
    else:
        yield f"    connectionsPerClient: {CONNECTIONS_PER_CLIENT} # one client process saturates one core"


def _budget(plan: Plan) -> Iterator[str]:
    if plan.money.usd_per_node_hour is None:
        return
    usd = plan.batch.usd if plan.batch is not None and plan.batch.usd is not None else plan.money.usd_per_month
    # Above the last section: a comment at the end of the file would move with the first `pulumi config set`.
    yield "  # A budget only alerts; it does not stop spending. Fill in and uncomment."
    yield "  # vllm-fleet:budget:"
    yield "  #   billingAccount: 01ABCD-234567-89EFAB"
    yield f"  #   usdPerMonth: {ceil(usd)}"
    yield _APART


def _check(root: Path, stack: str, text: str) -> None:
    """Refuse what `fleet check` would refuse, before writing the file."""
    from settings.stack_file import read

    refused = [one for one in check(parse(stack, read(root, stack, text).config)) if one.severity == "error"]
    if refused:
        raise SettingsError(stack, [_as_option(finding) for finding in refused])


def _as_option(finding: Finding) -> Finding:
    """A refusal with the option of `fleet plan` that avoids it, where there is one."""
    if finding.id != "advisories-in-production":
        return finding
    return dataclasses.replace(
        finding, write="--profile tuned, the record's workload on a current release, or a serve- profile"
    )


def wrong_stack(stack: str) -> Iterator[Finding]:
    """A stack name that cannot be."""
    if not _STACK.fullmatch(stack):
        yield Finding(
            id="stack-name",
            subject="STACK",
            found=stack,
            allowed="a letter, then letters, digits, hyphens and underscores",
            why="the stack file is named Pulumi.STACK.yaml",
            write="production",
        )


def _wrong_names(stack: str, plan: Plan, place: Place) -> Iterator[Finding]:
    yield from wrong_stack(stack)
    reservation, zone = place.reservation, _zone(plan, place)
    if plan.machines > MOST_MACHINES:
        yield Finding(
            id="too-many-replicas",
            subject="--write",
            found=plan.machines,
            allowed=f"up to {MOST_MACHINES:,} machines",
            why="this is the limit of replicas per stack",
            write="several plans, each with a share of the load",
        )
    capacity = plan.question.capacity
    if capacity in _NAMED and reservation is None:
        yield Finding(
            id="reservation-name",
            subject="--reservation",
            found=None,
            allowed="the name of a reservation",
            why=f"{capacity} nodes come from a named reservation",
            write="--reservation b200-production",
        )
    if reservation is not None and (capacity not in {*_NAMED, "ladder"} or not _RESERVATION.fullmatch(reservation)):
        yield Finding(
            id="reservation-name",
            subject="--reservation",
            found=reservation,
            allowed="with cud-1y, cud-3y, reservation, calendar and ladder: lower-case letters, digits and hyphens",
            why="it names the reservation that the nodes come from",
            write="--reservation b200-production",
        )
    if zone is None or not re.fullmatch(r"[a-z]+-[a-z]+\d+-[a-z]", zone):
        machine, region = plan.question.machine.type, plan.question.region
        what = f"no zone {f'of {region} ' if _regions_with(machine) else ''}is known to have {machine}, and "
        yield Finding(
            id="zone-name",
            subject="--zone",
            found=zone,
            allowed="a zone such as europe-west4-b",
            why=f"{'' if zone else what}its region holds network, cluster and registry",
            write=_zone_option(machine, region),
        )


def _wrong_model(plan: Plan, place: Place, config: Path | None) -> Iterator[Finding]:
    model = plan.question.profile.model
    if model == profile_facts(plan.question.profile.name).model:
        return
    if config is not None and place.repository is None:
        yield Finding(
            id="repository-name",
            subject="--repository",
            found=None,
            allowed="OWNER/NAME of a Hugging Face repository",
            why="a config.json does not say where its weights are",
            write="--repository my-team/our-model",
        )
    if config is None and place.repository is not None:
        yield Finding(
            id="repository-name",
            subject="--repository",
            found=place.repository,
            allowed="with --model and the path of a config.json",
            why=f"{model} of the catalogue is its own repository",
            write=f"--model {model} alone",
        )
    known = None if config is not None else CATALOGUE[model].revision
    if not re.fullmatch(r"[0-9a-f]{40}", place.revision or known or ""):
        yield Finding(
            id="model-without-revision",
            subject="--revision",
            found=place.revision,
            allowed=f"a commit of {place.repository or model}: 40 digits and letters a to f",
            why="an unpinned model can change between restarts"
            + ("" if config is not None else ", and the catalogue has no revision of it"),
            write="--revision with the newest commit of the repository",
        )


def wrong_project(project: str | None) -> Iterator[Finding]:
    """A project id that cannot be."""
    if project is not None and not _PROJECT.fullmatch(project):
        yield Finding(
            id="project-name",
            subject="--project",
            found=project,
            allowed="the id of a Google Cloud project: 6 to 30 lower-case letters, digits and hyphens",
            why="it becomes gcp:project",
            write="--project my-project, or omit it and set it later",
        )


def _in_the_way(root: Path, *paths: Path) -> Iterator[Finding]:
    if there := [str(path.relative_to(root)) for path in paths if path.exists()]:
        yield Finding(
            id="stack-file-exists",
            subject="STACK",
            found=" and ".join(there),
            allowed="a stack without these files",
            why="manual changes in them would be lost",
            write="another name; only `fleet plan --write` replaces them, with --force",
        )
