"""Estimate a stack's throughput with the planner's model where no figure was published."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from facts import ledger
from facts.workloads import Workload, countable_name, named_workload
from fleet.plan.from_settings import deployment_of
from fleet.plan.model.deployment import OfferedLoad
from fleet.plan.model.gpu_memory import DoesNotFitError
from fleet.plan.model.performance import ContextTooShortError, estimate
from fleet.plan.words import format_mean_lengths

if TYPE_CHECKING:
    from fleet.plan.model.estimates import Estimate
    from fleet.plan.model.performance import Performance
    from settings.sections.shape import Shape
    from settings.stack import Settings

_LLM_D = "Assumed: llm-d's picker costs as much as the article's, of v1.4.0. No figure is published for llm-d's."


@dataclass(frozen=True, slots=True, kw_only=True)
class Modelled:
    """Estimate for one stack at its declared concurrency."""

    performance: Performance
    requests: Workload
    """Workload that the estimate assumes: the stack file's, the profile's, or the article's."""
    in_flight: int
    """Requests in flight across all replicas: the declared full load."""
    assumed: str | None = None
    """What the estimate takes from another stack, where nothing was published for this one's; None elsewhere."""
    apart: str = ""
    """With `server.shape`: its ratio, and what prefill apart and the cheaper interval changed where they were measured. The estimate is
    that of the same engines together. Empty without a shape."""

    @property
    def total_tokens_per_s(self) -> Estimate:
        """Input and output tokens/s."""
        return self.performance.total_tokens_per_s

    @property
    def output_tokens_per_s(self) -> Estimate:
        """Output tokens/s."""
        return self.performance.output_tokens_per_s

    @property
    def _requests(self) -> str:
        return (
            f"workload {self.requests.name}"
            if self.requests.name
            else f"requests of {format_mean_lengths(self.requests)}"
        )

    def short(self) -> str:
        """Total and output throughput in one phrase."""
        total, output = self.total_tokens_per_s, self.output_tokens_per_s
        return (
            f"{total.value:,.0f} tok/s total ({total.low:,.0f} to {total.high:,.0f}), {output.value:,.0f} output by the "
            f"model's estimate ({self.performance.label})"
        )

    def format(self) -> str:
        """One sentence with interval, basis and load."""
        total, output = self.total_tokens_per_s, self.output_tokens_per_s
        tpot = self.performance.tpot_ms
        return (
            f"model's estimate ({self.performance.label}): {total.value:,.0f} tok/s total ({total.low:,.0f} to {total.high:,.0f}) · "
            f"{output.value:,.0f} tok/s output ({output.low:,.0f} to {output.high:,.0f}) · TPOT mean {tpot.value:.0f} ms "
            f"({tpot.low:.0f} to {tpot.high:.0f}), for {self._requests} at full load, {self.in_flight:,} requests in flight"
            f"{self.apart}"
        )


def modelled(settings: Settings) -> Modelled | None:
    """Estimate a stack. None if it is paused, its architecture unknown, or model or requests do not fit."""
    if settings.replicas == 0:
        return None
    serving = settings.serving
    requests = serving.requests or named_workload(countable_name(serving.workload))
    in_flight = serving.concurrency_per_replica * settings.replicas
    try:
        deployment = deployment_of(settings)
        performance = estimate(deployment, requests, OfferedLoad(in_flight=in_flight))
    except (LookupError, DoesNotFitError, ContextTooShortError):
        return None
    return Modelled(
        apart="" if settings.server.shape is None else _apart(settings.server.shape, requests),
        performance=performance,
        requests=requests,
        in_flight=in_flight,
        assumed=_LLM_D if settings.routing == "llm-d-picker" else None,
    )


def _apart(shape: Shape, requests: Workload) -> str:
    """The ratio of a shape, and what was measured: one pair apart, and one engine with an interval. No other ratios were."""
    runs = ledger.section("disaggregation", "rendered")["runs"].values()
    changed = ", ".join(f"{one['times']} for {one['title']}" for one in runs)
    interval = ledger.section("disaggregation", "interval")
    advised = interval["advised"]
    gained = ", ".join(
        f"{load['runs'][advised]['total'] / load['runs'][1]['total']:.2f} {load['title']}"
        for load in interval["loads"].values()
        if advised in load["runs"]
    )
    here = requests.input_tokens.mean / requests.output_tokens.mean
    return (
        f". This is with all engines together; prefill apart has {shape.prefill_gpus} : {shape.decode_gpus} GPUs of a pod. Measured as "
        f"1 : 1 on two H200 (one node type, dummy weights), times the requests/s of both together: {changed}. With the engines together, "
        f"engine.prefillScheduleInterval {advised} gives, in times the tok/s (one H200, dummy weights): {gained}; here prompts are "
        f"{here:.3g} times as long. Where prompts are short, try it first: apart is for a low ITL p99"
    )
