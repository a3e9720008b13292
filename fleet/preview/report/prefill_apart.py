"""Prefill apart from decode in a preview: whether the planner knows a better split for the load, or none, and what to try first."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from facts.finding import Finding
from fleet.report.words import format_milliseconds
from settings.sections.section import key

if TYPE_CHECKING:
    from fleet.plan.modelled import Modelled
    from settings.stack import Settings


def split_findings(settings: Settings, modelled: Modelled | None) -> Iterator[Finding]:
    """A warning where a side would be idle that another split would use, or where the whole interval of the throughput is below the same
    engines together.
    """
    shape = settings.server.shape
    if shape is None or modelled is None or modelled.split is None or modelled.splits is None:
        return
    one, gain, best = modelled.split.apart, modelled.split.gain, modelled.splits.best.apart
    if gain.high > 1 and (one.idle == "neither" or one == best):
        return
    has_better = best != one and modelled.splits.advice != "no"
    cure, each = modelled.splits.cure, settings.serving.engine.tensor_parallel_size
    other = f"prefillGpus: {best.prefill * each}, decodeGpus: {best.decode * each}"
    first = (
        f"first engine: {{maxNumBatchedTokens: {cure.max_num_batched_tokens}}} without shape, whose longest gap is "
        f"{format_milliseconds(1e3 * cure.longest_gap_s)}; else "
        if cure is not None
        else ""
    )
    yield Finding(
        id="shape-idles",
        subject=key("server.shape"),
        found=f"{shape.prefill_gpus} + {shape.decode_gpus} GPUs",
        allowed=f"{other}, the best split of this load"
        if has_better
        else "left out: no split of this load gains tokens",
        why=f"with {settings.serving.concurrency_per_replica:,} requests in flight at a pod, by the planner's model prefill is busy "
        f"{100 * one.prefill_busy:.0f} % and decode {100 * one.decode_busy:.0f} %, with {gain.value:.2f} times the tok/s of the same "
        f"engines together ({gain.low:.2f} to {gain.high:.2f}), and a longest gap of {format_milliseconds(1e3 * one.longest_gap_s)} "
        f"instead of {format_milliseconds(1e3 * modelled.splits.together.longest_gap_s)}",
        write=first
        + (other if has_better else "remove shape, or a lower needs.concurrencyPerReplica, if fewer are in flight"),
        severity="warning",
    )
