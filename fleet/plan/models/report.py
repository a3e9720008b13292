"""The model catalog with the GPUs that each model needs per machine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from facts import fit, machines
from facts.machines import Machine
from facts.memory import CacheLayout, sequence_bytes_at_most, sequence_bytes_per_token
from facts.models import CATALOGUE, CatalogueModel
from facts.user_error import UserError
from fleet.report.outline import Outline, Prose, Section
from fleet.report.table import Cell, Column, Table, numbers, texts
from fleet.report.words import NOTHING


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """One model and its GPU needs."""

    model: CatalogueModel
    gpus: Mapping[str, int | None]
    """GPUs needed, by machine type; None if it does not fit one machine."""


def listed(machine: str | None) -> tuple[Listed, ...]:
    """Every model, on one machine or the largest of each GPU. Raises UserError."""
    if machine is not None and machine not in machines.MACHINES:
        raise UserError(f"--machine {machine}: unknown; {machines.machine_hint(machine)}")
    chosen = (machines.find(machine),) if machine else _largest()
    return tuple(
        Listed(model=model, gpus={one.type: fit.gpus_needed(model.shape, one) for one in chosen})
        for model in CATALOGUE.values()
    )


def _largest() -> tuple[Machine, ...]:
    """The largest machine of each GPU kind, smallest memory first. GPUs that differ only in networking are one kind."""
    largest: dict[tuple[float, float], Machine] = {}
    for machine in machines.MACHINES.values():
        kind = (machine.gpu.memory_gib, machine.gpu.bf16_flop_per_s)
        if kind not in largest or largest[kind].gpus < machine.gpus:
            largest[kind] = machine
    return tuple(sorted(largest.values(), key=lambda one: one.gpu.memory_gib * one.gpus))


def outline(rows: tuple[Listed, ...]) -> Outline:
    """One line per model, with GPUs per machine."""
    types = list(rows[0].gpus)
    table = Table(
        id="models",
        caption="GPUs that each model needs at its format",
        columns=(
            *texts("model"),
            *numbers("B", "active"),
            Column(title="weights"),
            Column(title="vLLM"),
            *numbers(*map(_gpu, types)),
            Column(title="gated"),
        ),
        rows=tuple(tuple(map(Cell, _row(row))) for row in rows),
    )
    reading = (
        "A number is the minimum of GPUs on one machine for the weights and a request of "
        f"{fit.REQUEST_TOKENS:,} tokens, with vLLM's defaults and a 16-bit cache; {NOTHING} means that it does not fit. ~ marks a GPU "
        "without native arithmetic for the weights' format: it saves memory, not time.",
        "Machines: " + ", ".join(f"{_gpu(type_)} is {type_}" for type_ in types) + ".",
        "Memory follows vLLM's own calculation. The table does not show speed. gated: the download requires a token.",
        "To serve one: `vllm-fleet:model: {id: ...}` (docs/models.md).",
    )
    return Outline(
        title="Model catalog",
        kind="GPUs needed at their format",
        body=(table, Section(title="How to read this", body=tuple(map(Prose, reading)))),
        data={"models": [_document(row) for row in rows]},
    )


def _gpu(machine_type: str) -> str:
    return machines.find(machine_type).gpu.name.replace(" PRO 6000", "").replace(" ", "/")


def _row(one: Listed) -> tuple[str, ...]:
    model, shape = one.model, one.model.shape
    return (
        model.id,
        f"{shape.parameters / 1e9:.3g}" if shape.parameters < 999e9 else f"{shape.parameters / 1e9:.0f}",
        f"{shape.active_parameters / 1e9:.2g}" if shape.experts else "",
        f"{model.size_gb:g} GB {shape.weight_format}",
        model.min_vllm,
        *(_needed(one.model, type_, count) for type_, count in one.gpus.items()),
        "yes" if model.gated else "",
    )


def _needed(model: CatalogueModel, machine_type: str, count: int | None) -> str:
    if count is None:
        return NOTHING
    return f"{count}" if fit.computes_natively(model.shape, machines.find(machine_type).gpu) else f"~{count}"


def _document(one: Listed) -> dict[str, object]:
    model, shape = one.model, one.model.shape
    layout = CacheLayout(architecture=shape.architecture, kv_cache_dtype="auto", speculative_tokens=0)
    return {
        "id": model.id,
        "revision": model.revision,
        "sizeGb": model.size_gb,
        "kind": shape.kind,
        "weightFormat": shape.weight_format,
        "parameters": round(shape.parameters),
        "activeParameters": round(shape.active_parameters),
        "experts": shape.experts,
        "contextTokens": shape.context_tokens,
        "cacheBytesPerToken": sequence_bytes_per_token(layout),
        "cacheBytesPerSequence": sequence_bytes_at_most(layout),
        "toolCallParser": model.tool_parser,
        "reasoningParser": model.reasoning_parser,
        "minVllm": model.min_vllm,
        "licence": model.licence,
        "gated": model.gated,
        "source": model.source,
        "gpus": dict(one.gpus),
    }
