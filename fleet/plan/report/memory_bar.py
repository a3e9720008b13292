"""Chart of one GPU's memory by part, to scale."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from facts.workloads import Workload
from fleet.plan.model.gpu_memory import MemoryBudget
from fleet.report.charts import Axis
from fleet.report.rows import Bar, Row, Rows

_HEIGHT_PX = 58.0
_PALE = ("free", "outside")
"""Unused parts: pale, so their labels are dark."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One part of a GPU's memory."""

    id: str
    """Also the CSS class that colors it."""
    name: str
    short_name: str
    gib: float
    note: str


def parts(budget: MemoryBudget, *, used_percent: float, workload: Workload) -> tuple[Part, ...]:
    """The parts in the order of the bar; they sum to the whole GPU. `used_percent`: peak share of the cache in use."""
    return tuple(part for part in _parts(budget, used_percent / 100, workload) if part.gib > 0)


def _parts(budget: MemoryBudget, used: float, workload: Workload) -> Iterator[Part]:
    keys = budget.attention_share(workload)
    in_use = budget.cache_gib * used
    yield Part(id="weights", name="Weights", short_name="weights", gib=budget.weights_gib, note="the model's text part")
    yield Part(
        id="draft",
        name="Draft model",
        short_name="draft",
        gib=budget.draft_gib,
        note="the layer that proposes tokens (MTP)",
    )
    yield Part(
        id="vision",
        name="Vision tower",
        short_name="vision",
        gib=budget.vision_gib,
        note="left out by --language-model-only",
    )
    yield Part(
        id="activations",
        name="Activation peak",
        short_name="activations",
        gib=budget.activations_gib,
        note="one full step, driver and allocator included",
    )
    yield Part(
        id="sampler",
        name="Logits of the start-up step",
        short_name="logits",
        gib=budget.sampler_gib,
        note="reserved for --max-num-seqs sequences",
    )
    yield Part(
        id="graphs",
        name="CUDA graphs",
        short_name="graphs",
        gib=budget.cuda_graphs_gib,
        note="within vLLM's budget" if budget.graphs_in_budget else "on top of vLLM's budget",
    )
    yield Part(
        id="keys", name="KV cache in use", short_name="KV cache", gib=in_use * keys, note="keys and values, at the peak"
    )
    yield Part(
        id="state",
        name="Recurrent state in use",
        short_name="recurrent state",
        gib=in_use * (1 - keys),
        note="state of the linear-attention layers, at the peak",
    )
    yield Part(
        id="free",
        name="Free cache",
        short_name="free cache",
        gib=budget.cache_gib * (1 - used),
        note="for more or longer requests",
    )
    yield Part(
        id="outside",
        name="Outside vLLM's budget",
        short_name="outside",
        gib=budget.outside_gib,
        note="margin for peaks that the start-up step missed",
    )


def chart(found: tuple[Part, ...], budget: MemoryBudget, gpu: str) -> Rows:
    """One bar with every part, one with vLLM's budget."""
    bars, begins = [], 0.0
    for part in found:
        bars.append(
            Bar(
                low=begins,
                high=begins + part.gib,
                style=f"part {part.id}",
                title=f"{part.name}: {part.gib:.1f} GiB",
                words=part.short_name,
                words_style="" if part.id in _PALE else "in-bar",
            )
        )
        begins += part.gib
    share = f"{budget.budget_gib:.0f} GiB"
    budget_bar = Bar(low=0, high=budget.budget_gib, style="step", title=f"vLLM's budget: {share}")
    return Rows(
        id="memory",
        title=f"Memory of one {gpu}",
        description="; ".join(f"{part.name} {part.gib:.1f} GiB" for part in found)
        + f"; {budget.gpu_gib:g} GiB in total.",
        axis=Axis(low=0, high=budget.gpu_gib, title="GiB of one GPU"),
        rows=(
            Row(label=f"Memory of one {gpu}", words=f"{budget.gpu_gib:.0f} GiB", bars=tuple(bars), height=_HEIGHT_PX),
            Row(label="vLLM's budget", words=share, bars=(budget_bar,)),
        ),
    )
