"""Published figures, and whether they apply to a fleet.

A figure applies to the configuration (shape) it was measured on. A fleet's shape is equal, equivalent (each difference is justified in
facts/data/equivalences.yaml), or unproven. Nothing is interpolated.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Literal

from facts import ledger
from facts.engines import Scalar, normalise_environment, normalise_flags
from facts.ledger import Source

Routing = Literal["cluster-ip", "inference-gateway", "llm-d-picker", "router", "load-balancer"]
"""`inference-gateway`: with the article's picker. `router`: routers of the stack. `load-balancer`: a gateway without an endpoint picker.
Only `cluster-ip` and `inference-gateway` have published figures."""

NOT_STATED = "not stated"
SETTINGS_LEFT_OPEN = "settings the article leaves open"

# Files for matching. The second run and the client-bound run are other measurements of the same rows.
_MATCHED_FILES: Mapping[Routing, str] = {"cluster-ip": "cluster_ip", "inference-gateway": "gateway"}
_SINGLE_NODE_FILE = "phases"
_FIELDS = ("model", "engine_version", "machine_type", "gpus_per_replica", "workload", "dataset", "routing")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingShape:
    """The settings of a stack file that determine a fleet's throughput."""

    model: str
    """The model's repository, for example Qwen/Qwen3.5-27B-FP8."""
    engine_version: str
    machine_type: str
    replicas: int
    """Nodes, one per replica."""
    gpus_per_replica: int
    flags: Mapping[str, Scalar]
    """vLLM's options by long name without dashes, normalized before comparison."""
    env: Mapping[str, str]
    routing: Routing
    workload: str
    """A name from workloads.yaml."""
    dataset: str | None = None
    """SHA-256 of the file with requests, or None."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A published row."""

    id: str
    """`<file>.<row>`, for example cluster_ip.nodes-12."""
    title: str
    total_tokens_per_s: int | None
    """Input and output tokens a second; None for a run without a rate."""
    output_tokens_per_s: int | None
    """Measured, or derived from a published total by the workload's share of output; None if the workload is not stated."""
    tpot_median_ms: float | None
    ttft_median_ms: float | None
    scaling_efficiency_percent: float | None
    """Total divided by nodes times the same run's one-node total."""
    label: str
    """Label to show with it, for example "published, vLLM 0.18.0"."""
    shape: ServingShape
    shape_is_complete: bool
    """False if the article does not state all settings of the run."""
    source: Source
    approximate: bool = False
    """Whether the article rounds it."""
    outcome: str | None = None
    """Result of a run without a rate."""
    note: str | None = None
    also_published: tuple[str, ...] = ()
    """Other values for the same row, each with its origin."""
    dispute_ids: tuple[str, ...] = ()
    details: Mapping[str, Any] = field(default_factory=dict)
    """Further published metrics of the run: latency tables, power, utilization."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One difference between a fleet's and a figure's shape."""

    field: str
    """A field of ServingShape, an option's long name, or "env NAME"."""
    published: Scalar | None
    """None: not set."""
    ours: Scalar | None
    argument: str | None
    """Justification that it does not change the figure; None if there is none."""

    def __str__(self) -> str:
        if self.field == SETTINGS_LEFT_OPEN:
            return self.field
        return f"{self.field} ({_format_scalar(self.published)} published, {_format_scalar(self.ours)} here)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """The figure closest to a fleet, and what differs."""

    figure: Figure | None
    """None if no row has the number of nodes or the model."""
    differences: tuple[Difference, ...] = ()
    missing: str = ""
    """Why there is no figure."""

    @property
    def unargued(self) -> tuple[Difference, ...]:
        """Differences without a justification, because of which the figure does not apply."""
        return tuple(difference for difference in self.differences if difference.argument is None)

    @property
    def kind(self) -> Literal["exact", "equivalent", "unproven"]:
        """Whether the figure applies: nothing differs, each difference is justified, or neither."""
        if self.figure is None or self.unargued:
            return "unproven"
        return "equivalent" if self.differences else "exact"

    @property
    def reason(self) -> str:
        """One sentence for a report."""
        if self.figure is None:
            return self.missing
        count = len(self.differences)
        if self.unargued:
            return f"unproven: differs in {', '.join(map(str, self.unargued))}"
        if not count:
            return "same configuration as the published run"
        return f"equivalent to the published run: {'1 difference,' if count == 1 else f'{count} differences, each'} justified"


def compare(shape: ServingShape, figure: Figure) -> Match:
    """Compare a fleet with one figure, except for the number of nodes."""
    return Match(figure=figure, differences=tuple(_differences(shape, figure)))


def match(shape: ServingShape) -> Match:
    """The published row closest to a fleet."""
    candidates = [
        figure for figure in _rows(_MATCHED_FILES.get(shape.routing)) if figure.shape.replicas == shape.replicas
    ]
    same_model = [figure for figure in candidates if figure.shape.model == shape.model]
    best = _nearest(shape, same_model)
    if best is not None and best.kind != "unproven":
        return best
    if shape.routing == "cluster-ip" and shape.replicas == 1:
        phases = [f for f in _rows(_SINGLE_NODE_FILE) if f.total_tokens_per_s and f.shape.model == shape.model]
        best = _nearest(shape, [*same_model, *phases])
    if best is not None:
        return best
    nodes = "1 node" if shape.replicas == 1 else f"{shape.replicas} nodes"
    behind = {
        "inference-gateway": " behind the Inference Gateway",
        "llm-d-picker": " behind the Inference Gateway with llm-d's picker",
        "router": " behind a router",
        "load-balancer": " behind a load balancer",
    }.get(shape.routing, "")
    what = f" of {shape.model}" if candidates else ""
    return Match(figure=None, missing=f"no published figure{what} for {nodes}{behind}")


def published(id_: str) -> Figure:
    """The figure with that id, `<file>.<row>`. Raises LedgerError with the known rows."""
    file, _, row = id_.partition(".")
    ledger.entry(file, "figures", row)
    return next(figure for figure in _rows(file) if figure.id == id_)


def published_nodes(routing: Routing) -> tuple[int, ...]:
    """Node counts with a published row, ascending."""
    return tuple(sorted({figure.shape.replicas for figure in _rows(_MATCHED_FILES.get(routing))}))


def all_figures() -> tuple[Figure, ...]:
    """Every published figure, by file. The planner's model is fitted to these only."""
    return tuple(figure for file in FIGURE_FILES for figure in _rows(file))


_STEPS = frozenset(
    {
        "data-parallel-size",
        "tensor-parallel-size",
        "kv-cache-dtype",
        "gpu-memory-utilization",
        "speculative-config.method",
        "speculative-config.num_speculative_tokens",
    }
)
"""Settings that the article changed from phase to phase, with a figure for each."""

FIGURE_FILES = ("phases", "cluster_ip", "gateway", "single_client", "cluster_ip_rerun")


@cache
def _rows(file: str | None) -> tuple[Figure, ...]:
    """The figures of a file; none without one."""
    if file is None:
        return ()
    content = ledger.load(file)
    try:
        return tuple(_figure(file, content, row, fields) for row, fields in content["figures"].items())
    except (KeyError, TypeError, AttributeError) as error:
        raise ledger.LedgerError(f"{file}.yaml: {error!r} is missing or of the wrong form") from error


def _figure(file: str, content: Mapping[str, Any], row: str, fields: Mapping[str, Any]) -> Figure:
    raw = _raw_shape(fields.get("shape") or content["shape"])
    total: int | None = fields["total_tokens_per_s"]
    version = raw["engine_version"]
    replicas: int = fields.get("replicas") or content["replicas"]
    return Figure(
        id=f"{file}.{row}",
        title=fields["title"],
        total_tokens_per_s=total,
        output_tokens_per_s=_output_tokens_per_s(total, raw["workload"]),
        tpot_median_ms=fields.get("tpot_median_ms"),
        ttft_median_ms=fields.get("ttft_median_ms"),
        scaling_efficiency_percent=fields.get("scaling_efficiency_percent"),
        label="published, vLLM version not stated" if version == NOT_STATED else f"published, vLLM {version}",
        shape=ServingShape(
            model=raw["model"],
            engine_version=version,
            machine_type=raw["machine_type"],
            replicas=replicas,
            gpus_per_replica=raw["gpus_per_replica"],
            flags=normalise_flags(raw["flags"]),
            env=normalise_environment(raw.get("env", {})),
            routing=content["routing"],
            workload=raw["workload"],
        ),
        shape_is_complete=raw["complete"],
        source=ledger.source(content["source"]),
        approximate=fields.get("approximate", False),
        outcome=fields.get("outcome"),
        note=fields.get("note"),
        also_published=tuple(fields.get("also_published", ())),
        dispute_ids=tuple(fields.get("disputed", ())),
        details=fields.get("details", {}),
    )


@cache
def _raw_shape(name: str) -> Mapping[str, Any]:
    """A shape of shapes.yaml with its base's fields; flags are merged, all other fields replaced."""
    fields = ledger.entry("shapes", "shapes", name)
    if "base" not in fields:
        return fields
    base = _raw_shape(fields["base"])
    return {**base, **fields, "flags": {**base["flags"], **fields.get("flags", {})}}


def _output_tokens_per_s(total: int | None, workload: str) -> int | None:
    workloads = ledger.section("workloads", "workloads")
    if total is None or workload not in workloads:
        return None
    output_share: float | None = workloads[workload]["output_share"]
    return None if output_share is None else round(total * output_share)


def _nearest(shape: ServingShape, figures: list[Figure]) -> Match | None:
    def distance(one: Match) -> tuple[int, int, int]:
        # Unjustified differences in settings of the article's phases make a row less close.
        return sum(part.field in _STEPS for part in one.unargued), len(one.unargued), len(one.differences)

    return min((compare(shape, figure) for figure in figures), key=distance, default=None)


def _differences(shape: ServingShape, figure: Figure) -> Iterator[Difference]:
    published = figure.shape
    for name in _FIELDS:
        yield from _difference("fields", name, getattr(published, name), getattr(shape, name))
    theirs, ours = published.flags, normalise_flags(shape.flags)
    for name in sorted({*theirs, *ours}):
        yield from _difference("flags", name, theirs.get(name), ours.get(name))
    their_env, our_env = published.env, normalise_environment(shape.env)
    for name in sorted({*their_env, *our_env}):
        yield from _difference("env", name, their_env.get(name), our_env.get(name))
    if not figure.shape_is_complete:
        yield Difference(field=SETTINGS_LEFT_OPEN, published=NOT_STATED, ours=None, argument=None)


def _difference(section: str, name: str, published: Scalar | None, ours: Scalar | None) -> Iterator[Difference]:
    if published == ours:
        return
    rule = ledger.section("equivalences", section).get(name)
    equivalent = rule is not None and (rule.get("any", False) or {published, ours} <= set(rule["either"]))
    yield Difference(
        field=f"env {name}" if section == "env" else name,
        published=published,
        ours=ours,
        argument=rule["argument"] if rule is not None and equivalent else None,
    )


def _format_scalar(value: Scalar | None) -> str:
    if value is None:
        return "not set"
    if isinstance(value, bool):
        return "on" if value else "off"
    return str(value)
