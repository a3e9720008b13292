"""Estimate a stack's throughput with the planner's model where no figure was published."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from facts.figures import published
from facts.workloads import Workload, countable_name, named_workload
from fleet.plan.from_settings import deployment_of, facts_of_stack
from fleet.plan.model.deployment import OfferedLoad
from fleet.plan.model.gpu_memory import DoesNotFitError
from fleet.plan.model.performance import ContextTooShortError, estimate
from fleet.plan.prefill_apart import PrefillApart, Split, prefill_apart
from fleet.plan.words import format_mean_lengths
from fleet.report.words import format_duration, format_milliseconds

if TYPE_CHECKING:
    from fleet.plan.model.estimates import Estimate
    from fleet.plan.model.performance import Performance
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
    failed: str | None = None
    """Outcome of the article's run of this profile, if it gave no rate."""
    splits: PrefillApart | None = None
    """What splits of a pod's engines would change; None without `server.shape`, or where the model has no answer. `performance` is then
    that of the same engines together."""
    split: Split | None = None
    """The stack's own split."""

    @property
    def total_tokens_per_s(self) -> Estimate:
        """Input and output tokens/s."""
        return self._apart(self.performance.total_tokens_per_s)

    @property
    def output_tokens_per_s(self) -> Estimate:
        """Output tokens/s."""
        return self._apart(self.performance.output_tokens_per_s)

    @property
    def tpot_ms(self) -> Estimate:
        """Mean time per output token."""
        together = self.performance.tpot_ms
        if self.split is None or self.splits is None:
            return together
        ratio = self.split.apart.tpot_s / self.splits.together.tpot_s
        return together.map(lambda milliseconds: ratio * milliseconds)

    def _apart(self, together: Estimate) -> Estimate:
        if self.split is None:
            return together
        gain = self.split.gain
        return replace(
            together,
            value=gain.value * together.value,
            low=gain.low * together.low,
            high=gain.high * together.high,
            as_engine=None,
        )

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
            f"model's estimate ({total.label})"
        )

    def format(self) -> str:
        """One sentence with interval, basis and load."""
        total, output = self.total_tokens_per_s, self.output_tokens_per_s
        tpot = self.tpot_ms
        return (
            f"model's estimate ({total.label}): {total.value:,.0f} tok/s total ({total.low:,.0f} to {total.high:,.0f}) · "
            f"{output.value:,.0f} tok/s output ({output.low:,.0f} to {output.high:,.0f}) · TPOT mean {tpot.value:.0f} ms "
            f"({tpot.low:.0f} to {tpot.high:.0f}), for {self._requests} at full load, {self.in_flight:,} requests in flight"
            f"{self._readings()}{self._format_split()}"
        )

    def _format_split(self) -> str:
        """What prefill apart from decode changes, by the same model."""
        if self.split is None or self.splits is None:
            return ""
        one, gain, together = self.split.apart, self.split.gain, self.splits.together
        wait = f", first tokens after {format_duration(one.wait_s)} of waiting" if one.wait_s >= 1 else ""
        return (
            f". Prefill apart, {one.prefill} : {one.decode} engines of a pod: {gain.value:.2f} times the tok/s of the same engines "
            f"together ({gain.low:.2f} to {gain.high:.2f}), longest gap {format_milliseconds(1e3 * one.longest_gap_s)} instead of "
            f"{format_milliseconds(1e3 * together.longest_gap_s)}{wait}"
        )

    def _readings(self) -> str:
        """Which end the value is, where it could be either."""
        engine = self.total_tokens_per_s.as_engine
        return "" if engine is None else f". This is as the article's fleet; as one engine: {engine:,.0f} tok/s"


def modelled(settings: Settings) -> Modelled | None:
    """Estimate a stack. None if it is paused, its architecture unknown, model or requests do not fit, or other nodes read its prompts."""
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
    shape = settings.server.shape
    splits = None if shape is None else prefill_apart(deployment, requests, performance.running_per_engine.value)
    split = None
    if shape is not None and splits is not None:
        prefill = shape.prefill_gpus // settings.serving.engine.tensor_parallel_size
        split = next((one for one in splits.splits if one.apart.prefill == prefill), None)
    return Modelled(
        splits=splits,
        split=split,
        performance=performance,
        requests=requests,
        in_flight=in_flight,
        assumed=_LLM_D if settings.routing == "llm-d-picker" else None,
        failed=_failed(facts_of_stack(settings).reproduces),
    )


def _failed(row: str | None) -> str | None:
    figure = None if row is None else published(row)
    return None if figure is None or figure.total_tokens_per_s else figure.outcome
