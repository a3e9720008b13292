"""Chart of one GPU's memory by part, to scale."""

from __future__ import annotations

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
    keys, used = budget.attention_share(workload), used_percent / 100
    in_use = budget.cache_gib * used
    graphs = "within vLLM's budget" if budget.graphs_in_budget else "on top of vLLM's budget"
    found = (
        ("weights", "Weights", "weights", budget.weights_gib, "the model's text part"),
        ("draft", "Draft model", "draft", budget.draft_gib, "the layer that proposes tokens (MTP)"),
        ("vision", "Vision tower", "vision", budget.vision_gib, "left out by --language-model-only"),
        ("adapters", "Adapters", "adapters", budget.adapters_gib, "slots of --max-loras, used or not"),
        (
            "activations",
            "Activation peak",
            "activations",
            budget.activations_gib,
            "one full step, driver and allocator included",
        ),
        (
            "sampler",
            "Logits of the start-up step",
            "logits",
            budget.sampler_gib,
            "reserved for --max-num-seqs sequences",
        ),
        ("graphs", "CUDA graphs", "graphs", budget.cuda_graphs_gib, graphs),
        ("keys", "KV cache in use", "KV cache", in_use * keys, "keys and values, at the peak"),
        (
            "state",
            "Recurrent state in use",
            "recurrent state",
            in_use * (1 - keys),
            "state of the linear-attention layers, at the peak",
        ),
        ("free", "Free cache", "free cache", budget.cache_gib * (1 - used), "for more or longer requests"),
        (
            "outside",
            "Outside vLLM's budget",
            "outside",
            budget.outside_gib,
            "margin for peaks that the start-up step missed",
        ),
    )
    return tuple(
        Part(id=id_, name=name, short_name=short_name, gib=gib, note=note)
        for id_, name, short_name, gib, note in found
        if gib > 0
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
