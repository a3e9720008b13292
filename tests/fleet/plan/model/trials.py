"""Readings of own trials on H200 and H100 with the model's answer to each: the roofline was fitted to none of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from facts import ledger, memory
from facts.machines import H100, H200, Gpu
from facts.models import CATALOGUE
from facts.workloads import Lengths, Workload, named_workload
from fleet.plan.model.calibration import Parameters, calibration
from fleet.plan.model.deployment import Deployment, EngineShape, OfferedLoad
from fleet.plan.model.fleet_rate import FleetLoad, fleet_load
from fleet.plan.model.gpu_memory import budget
from fleet.plan.model.latency import per_token_s
from fleet.plan.model.roofline import known

_ARTICLE: Final = named_workload("article")
# The trial did not record its --max-num-seqs. The record's rendered pod with 512 had the same 95.08 GiB left (facts/data/h200.yaml).
_RECORD: Final = EngineShape(data_parallel=1, max_num_batched_tokens=16_384, max_num_seqs=512, language_model_only=True)
_LAYERS: Final = 64
"""Layers of the whole model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """One measured value and the model's."""

    id: str
    measured: float
    predicted: float

    @property
    def ratio(self) -> float:
        """Above 1 if the model overestimates."""
        return self.predicted / self.measured


def first_trial() -> Iterator[Reading]:
    """Engines on H200 without a front end: all as fitted, without host time and wait, and by the roofline."""
    measured = ledger.section("memory", "measured")
    fitted = calibration().parameters
    for run, caching in ((measured["at_250"], True), (measured["at_128"], False)):
        deployment, in_flight = _one(H200, replace(_RECORD, prefix_caching=caching)), run["in_flight"]
        for name, taken in (
            ("as-fitted", fitted),
            ("quiet", replace(fitted, host_ms_per_step=0.0, wait_s=0.0)),
            ("roofline", None),
        ):
            rate = _rate(_load(deployment, in_flight, taken))
            yield Reading(id=f"{in_flight}-{name}", measured=run["total_tokens_per_s"], predicted=rate)


def front_end() -> Iterator[Reading]:
    """Four engines over HTTP, with one API server each and with a shared one."""
    four = Deployment(nodes=1, gpu=H200, gpus_per_node=4, engine=replace(_RECORD, data_parallel=4))
    for name, run in ledger.section("front_end", "servers").items():
        if run["layers"] == _LAYERS:
            rate = _rate(_load(four, run["in_flight"]))
            yield Reading(id=name, measured=run["total_tokens_per_s"], predicted=rate)


def rendered() -> Iterator[Reading]:
    """Rendered pods on H200."""
    own = _one(H200, _RECORD)
    tuned = replace(_RECORD, max_num_seqs=288, prefix_caching=False, captured_tokens=576)
    dense = CATALOGUE["Qwen/Qwen3-32B-FP8"].shape
    shapes = {
        "record": own,
        "tuned": replace(own, engine=tuned),
        "tuned-no-mtp": replace(own, engine=replace(tuned, speculative_tokens=0)),
        "qwen3-32b": replace(own, model=dense, engine=replace(_RECORD, speculative_tokens=0)),
    }
    for name, run in ledger.section("h200", "runs").items():
        shape = name.removesuffix("-again").rpartition("-")[0]
        rate = _rate(_load(shapes[shape], run["in_flight"]))
        yield Reading(id=name, measured=run["total"]["mean"], predicted=rate)


def current_release() -> Iterator[Reading]:
    """vLLM 0.33.0 on H100: throughput and time per token."""
    for name, run in ledger.section("h100", "runs").items():
        load = _load(_on_h100(run["mtp"]), run["in_flight"])
        yield Reading(id=f"rate-{name}", measured=run["total"], predicted=_rate(load))
        yield Reading(id=f"tpot-{name}", measured=run["tpot_ms"][0], predicted=1e3 * per_token_s(load, _ARTICLE, 0))


def prompts_alone() -> Iterator[Reading]:
    """Prompts with one token of answer there."""
    for name, run in ledger.section("h100", "prefill").items():
        low, high = run["prompt_tokens"]
        prompts = Workload(
            input_tokens=Lengths(min=low, mean=(low + high) / 2, max=high), output_tokens=Lengths.exactly(1)
        )
        load = _load(_on_h100(run["mtp"]), run["in_flight"], workload=prompts)
        yield Reading(id=name, measured=run["prompt"], predicted=load.requests_per_s * prompts.input_tokens.mean)


def starts() -> Iterator[Reading]:
    """Cache memory left by logged engine starts, in GiB."""
    for name, run in ledger.section("memory", "starts").items():
        shape = CATALOGUE[run["model"]].shape
        start = memory.startup(
            max_num_seqs=run["sequences"],
            max_num_batched_tokens=run["batched_tokens"],
            vocabulary=shape.vocabulary,
            step_width=shape.step_width,
            drafts=run["drafts"],
        )
        left = memory.cache_gib_per_gpu(
            gpu_memory_utilization=run["share"],
            gpu_memory_gib=run["gpu_gib"],
            weights_and_draft_gib=sum(getattr(shape, f"{part}_weights_gib") for part in run["held"]),
            logits_gib=start.logits_gib,
            overhead_gib=start.activations_gib + (start.graphs_gib if run["graphs"] else 0),
        )
        yield Reading(id=name, measured=run["cache_gib"], predicted=left)


def _on_h100(mtp: bool) -> Deployment:
    return _one(H100, replace(_RECORD, max_num_seqs=256, speculative_tokens=int(mtp)))


def _one(gpu: Gpu, engine: EngineShape) -> Deployment:
    return Deployment(nodes=1, gpu=gpu, gpus_per_node=1, engine=engine)


def _load(
    deployment: Deployment, in_flight: float, parameters: Parameters | None = None, workload: Workload = _ARTICLE
) -> FleetLoad:
    """Those parameters, or the roofline's."""
    taken = parameters or known(deployment).engine
    return fleet_load(deployment, workload, OfferedLoad(in_flight=in_flight), taken, budget(deployment))


def _rate(load: FleetLoad) -> float:
    return load.requests_per_s * _ARTICLE.tokens_per_request
