"""Published figures, and whether a fleet may show one.

A figure holds for the shape it was measured on and for nothing else. A fleet's shape equals it, differs only in ways
that planner/data/equivalences.yaml argues away, or is unproven against it. Nothing is interpolated between rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Literal

from planner import ledger
from planner.engine_flags import Scalar, normalise_environment, normalise_flags
from planner.ledger import Dispute, Source

Routing = Literal["cluster-ip", "inference-gateway"]

NOT_STATED = "not stated"
SETTINGS_LEFT_OPEN = "settings the article leaves open"

# Files a fleet is matched with. The second run and the client-bound run are other readings of the same rows.
_MATCHED_FILES: Mapping[Routing, str] = {"cluster-ip": "cluster_ip", "inference-gateway": "gateway"}
_SINGLE_NODE_FILE = "phases"
_FIELDS = ("model", "engine_version", "machine_type", "gpus_per_replica", "workload", "routing")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingShape:
    """What decides a fleet's throughput, as far as a stack file says it."""

    model: str
    """The model's public name, for example Qwen/Qwen3.5-27B-FP8, whatever path it is mounted at."""
    engine_version: str
    machine_type: str
    replicas: int
    """Nodes: one replica takes one whole node."""
    gpus_per_replica: int
    flags: Mapping[str, Scalar]
    """vLLM's options by long name without dashes. Spellings are normalised before they are compared."""
    env: Mapping[str, str]
    routing: Routing
    workload: str
    """A name from workloads.yaml."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One published row."""

    id: str
    """`<file>.<row>`, for example cluster_ip.nodes-12."""
    title: str
    total_tokens_per_s: int | None
    """Input and output tokens a second; None where the run gave no rate."""
    output_tokens_per_s: int | None
    """Derived from the total by the workload's share of output; None where the workload is not stated."""
    tpot_median_ms: float | None
    ttft_median_ms: float | None
    scaling_efficiency_percent: float | None
    """Total over nodes times the same run's one-node total."""
    label: str
    """How to name it wherever it is shown, for example "published, vLLM 0.18.0"."""
    shape: ServingShape
    shape_is_complete: bool
    """False where the article leaves further settings of that run open."""
    left_open: tuple[str, ...]
    """What the article does not say about the run."""
    source: Source
    approximate: bool = False
    """Whether the article rounds it."""
    client_bound: bool = False
    """Whether the load generator set the rate, not the servers."""
    outcome: str | None = None
    """What happened, in runs that gave no rate."""
    note: str | None = None
    also_published: tuple[str, ...] = ()
    """Other readings of the same row, each with its origin."""
    dispute_ids: tuple[str, ...] = ()
    details: Mapping[str, Any] = field(default_factory=dict)
    """Further readings of that run as published: latency tables, power, utilization."""

    @property
    def total_tokens_per_s_per_node(self) -> float | None:
        """The total divided by nodes."""
        return None if self.total_tokens_per_s is None else self.total_tokens_per_s / self.shape.replicas

    @property
    def disputed(self) -> tuple[Dispute, ...]:
        """Points on which the sources contradict each other about this row."""
        return tuple(ledger.dispute(id_) for id_ in self.dispute_ids)


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One field in which a fleet and a figure's shape differ."""

    field: str
    """A field of ServingShape, an option's long name, or "env NAME"."""
    published: Scalar | None
    """None: not set."""
    ours: Scalar | None
    argument: str | None
    """Why it does not change the figure; None where nobody has argued that."""

    def __str__(self) -> str:
        if self.field == SETTINGS_LEFT_OPEN:
            return self.field
        return f"{self.field} ({_in_words(self.published)} published, {_in_words(self.ours)} here)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """The answer to: may this fleet show a published figure?"""

    kind: Literal["exact", "equivalent", "unproven"]
    figure: Figure | None
    """The nearest published row, or None where the number of nodes or the model was never measured."""
    differences: tuple[Difference, ...]
    reason: str
    """One sentence for a report."""

    @property
    def unargued(self) -> tuple[Difference, ...]:
        """The differences that keep the figure from being shown as this fleet's."""
        return tuple(difference for difference in self.differences if difference.argument is None)


def match(shape: ServingShape) -> Match:
    """The published row nearest to a fleet, and how near it is."""
    candidates = [figure for figure in _rows(_MATCHED_FILES[shape.routing]) if figure.shape.replicas == shape.replicas]
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
    behind = " behind the Inference Gateway" if shape.routing == "inference-gateway" else ""
    what = f" of {shape.model}" if candidates else ""
    return Match(kind="unproven", figure=None, differences=(), reason=f"no published figure{what} for {nodes}{behind}")


def published(id_: str) -> Figure:
    """The figure of that id, `<file>.<row>`. Raises LedgerError with the rows there are."""
    file, _, row = id_.partition(".")
    ledger.entry(file, "figures", row)
    return next(figure for figure in _rows(file) if figure.id == id_)


def published_nodes(routing: Routing) -> tuple[int, ...]:
    """Node counts with a published row, ascending."""
    return tuple(sorted({figure.shape.replicas for figure in _rows(_MATCHED_FILES[routing])}))


def all_figures() -> tuple[Figure, ...]:
    """Every published figure, file by file."""
    return tuple(figure for file in FIGURE_FILES for figure in _rows(file))


FIGURE_FILES = ("phases", "cluster_ip", "gateway", "single_client", "cluster_ip_rerun")


@cache
def _rows(file: str) -> tuple[Figure, ...]:
    content = ledger.load(file)
    try:
        return tuple(_figure(file, content, row, fields) for row, fields in content["figures"].items())
    except (KeyError, TypeError, AttributeError) as error:
        raise ledger.LedgerError(f"{file}.yaml: {error!r} is missing or of the wrong form") from error


def _figure(file: str, content: Mapping[str, Any], row: str, fields: Mapping[str, Any]) -> Figure:
    raw = _raw_shape(fields.get("shape") or content["shape"])
    total: int | None = fields["total_tokens_per_s"]
    version = raw["engine_version"]
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
            replicas=fields.get("replicas") or content["replicas"],
            gpus_per_replica=raw["gpus_per_replica"],
            flags=normalise_flags(raw["flags"]),
            env=normalise_environment(raw.get("env", {})),
            routing=content["routing"],
            workload=raw["workload"],
        ),
        shape_is_complete=raw["complete"],
        left_open=(*raw["left_open"], *content.get("left_open", ())),
        source=ledger.source(content["source"]),
        approximate=fields.get("approximate", False),
        client_bound=content.get("client_bound", False),
        outcome=fields.get("outcome"),
        note=fields.get("note"),
        also_published=tuple(fields.get("also_published", ())),
        dispute_ids=tuple(fields.get("disputed", ())),
        details=fields.get("details", {}),
    )


@cache
def _raw_shape(name: str) -> Mapping[str, Any]:
    """A shape of shapes.yaml with its base's fields filled in; flags are merged, everything else is replaced."""
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
    matches = [_compare(shape, figure) for figure in figures]
    return min(matches, key=lambda m: (len(m.unargued), len(m.differences)), default=None)


def _compare(shape: ServingShape, figure: Figure) -> Match:
    differences = tuple(_differences(shape, figure))
    unargued = [str(difference) for difference in differences if difference.argument is None]
    if unargued:
        return Match(
            kind="unproven",
            figure=figure,
            differences=differences,
            reason=f"unproven: differs in {', '.join(unargued)}",
        )
    if differences:
        count = "1 difference" if len(differences) == 1 else f"{len(differences)} differences, each"
        reason = f"equivalent to the published run: {count} argued"
        return Match(kind="equivalent", figure=figure, differences=differences, reason=reason)
    return Match(kind="exact", figure=figure, differences=(), reason="exactly the shape it was published for")


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
    argued = rule is not None and (rule.get("any", False) or {published, ours} <= set(rule["either"]))
    yield Difference(
        field=f"env {name}" if section == "env" else name,
        published=published,
        ours=ours,
        argument=rule["argument"] if rule is not None and argued else None,
    )


def _in_words(value: Scalar | None) -> str:
    if value is None:
        return "not set"
    if isinstance(value, bool):
        return "on" if value else "off"
    return str(value)
