"""Check the model against readings outside the article's tables: its asides, and runs on H200 and H100."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from facts import figures, ledger, memory
from facts.machines import H100, H200
from facts.models import CATALOGUE
from facts.workloads import Lengths, Workload, named_workload
from fleet.plan.model.calibration import Parameters, calibration
from fleet.plan.model.deployment import Deployment, EngineShape, OfferedLoad, record_fleet
from fleet.plan.model.fleet_rate import FleetLoad, fleet_load
from fleet.plan.model.gpu_memory import budget
from fleet.plan.model.latency import per_token_s
from fleet.plan.model.roofline import known
from fleet.plan.model.rows import PHASES, TP8_IN_FLIGHT

# The trial did not record its --max-num-seqs. The record's rendered pod with 512 had the same 95.08 GiB left (facts/data/h200.yaml).
_TRIAL_SEQUENCES = 512
_LAYERS = 64
"""Layers of the whole model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One reading and the model's prediction."""

    id: str
    title: str
    unit: str
    published: float
    predicted: float

    @property
    def error_percent(self) -> float:
        """Relative error of the prediction."""
        return 100 * (self.predicted / self.published - 1)


def checks() -> tuple[Check, ...]:
    """All checks."""
    return (*_article(), *_trial(), *_front_end(), *_rendered(), *_current_release(), *starts())


def _article() -> Iterator[Check]:
    record = record_fleet(1)
    change = figures.published("phases.concurrency-8k").details["change_percent"]
    yield Check(
        id="phases.concurrency-8k",
        title="8,000 requests in flight on one node, against 2,000",
        unit="of the rate",
        published=1 + change / 100,
        predicted=_tokens_per_s(record, 8_000) / _tokens_per_s(record, 2_000),
    )
    yield Check(
        id="phases.mtp1-095",
        title="the record at memory utilization 0.95",
        unit="tok/s",
        published=float(figures.published("phases.mtp1-095").total_tokens_per_s or 0),
        predicted=_tokens_per_s(replace(record, engine=replace(record.engine, gpu_memory_utilization=0.95)), 2_000),
    )
    tp8 = PHASES["phases.tp8"]
    five = replace(tp8, engine=replace(tp8.engine, speculative_tokens=5))
    gain = figures.published("phases.tp8-mtp5").details["gain_percent"]
    yield Check(
        id="phases.tp8-mtp5",
        title="five draft tokens instead of one, TP=8",
        unit="of the rate",
        published=1 + gain / 100,
        predicted=_tokens_per_s(five, TP8_IN_FLIGHT) / _tokens_per_s(tp8, TP8_IN_FLIGHT),
    )


def _trial() -> Iterator[Check]:
    measured = ledger.section("memory", "measured")
    parameters = calibration().parameters
    quiet = replace(parameters, host_ms_per_step=0.0, wait_s=0.0)
    with_caching, without = (_trial_engine(prefix_caching=caching) for caching in (True, False))
    yield Check(
        id="trial.cache",
        title="H200: memory left for the cache",
        unit="GiB",
        published=measured["cache_gib"],
        predicted=budget(with_caching).cache_gib,
    )
    for deployment, run in ((with_caching, measured["at_250"]), (without, measured["at_128"])):
        in_flight = run["in_flight"]
        yield Check(
            id=f"trial.used-{in_flight}",
            title=f"H200, {in_flight} in flight: cache used",
            unit="percent",
            published=run["kv_cache_percent"],
            predicted=budget(deployment).used_percent(in_flight, named_workload("article")),
        )
        for name, title, taken in (
            ("as-fitted", "all parameters as fitted", parameters),
            ("quiet", "no host time, no wait", quiet),
            ("roofline", "the roofline", known(deployment).engine),
        ):
            load = _load(deployment, in_flight, taken)
            yield Check(
                id=f"trial.rate-{in_flight}-{name}",
                title=f"H200, {in_flight} in flight, {title}",
                unit="tok/s",
                published=run["total_tokens_per_s"],
                predicted=load.requests_per_s * named_workload("article").tokens_per_request,
            )
            yield Check(
                id=f"trial.tpot-{in_flight}-{name}",
                title=f"H200, {in_flight} in flight, {title}: TPOT",
                unit="ms",
                published=run["tpot_median_ms"],
                predicted=1e3 * per_token_s(load, named_workload("article"), 0),
            )


def _front_end() -> Iterator[Check]:
    """Four engines over HTTP, with one API server each and with a shared one."""
    for name, run in ledger.section("front_end", "servers").items():
        if run["layers"] != _LAYERS:
            continue
        deployment = _trial_engine(prefix_caching=True, engines=4)
        load = _load(deployment, run["in_flight"], known(deployment).engine)
        servers = f"{run['api_servers']} API server{'s' if run['api_servers'] > 1 else ''}"
        yield Check(
            id=f"front-end.{name}",
            title=f"4 x H200 over HTTP, {servers}, 1,000 in flight, the roofline",
            unit="tok/s",
            published=run["total_tokens_per_s"],
            predicted=load.requests_per_s * named_workload("article").tokens_per_request,
        )


def _rendered() -> Iterator[Check]:
    """Rendered pods on H200, compared with the roofline, which was not fitted to them."""
    record = EngineShape(
        data_parallel=1, max_num_batched_tokens=16_384, max_num_seqs=_TRIAL_SEQUENCES, language_model_only=True
    )
    tuned = replace(record, max_num_seqs=288, prefix_caching=False, captured_tokens=576)
    dense = CATALOGUE["Qwen/Qwen3-32B-FP8"].shape
    own = Deployment(nodes=1, gpu=H200, gpus_per_node=1, engine=record)
    shapes = {
        "record": own,
        "tuned": replace(own, engine=tuned),
        "tuned-no-mtp": replace(own, engine=replace(tuned, speculative_tokens=0)),
        "qwen3-32b": replace(own, model=dense, engine=replace(record, speculative_tokens=0)),
    }
    for name, run in ledger.section("h200", "runs").items():
        shape, _, load_of = name.removesuffix("-again").rpartition("-")
        load = _load(shapes[shape], float(load_of), known(shapes[shape]).engine)
        what = f"rendered pod on H200, {run['profile'].partition(':')[0]}, {load_of} in flight" + (
            ", later" if "again" in name else ""
        )
        yield Check(
            id=f"rendered.rate-{name}",
            title=f"{what}, the roofline",
            unit="tok/s",
            published=run["total"]["mean"],
            predicted=load.requests_per_s * named_workload("article").tokens_per_request,
        )
        yield Check(
            id=f"rendered.tpot-{name}",
            title=f"{what}, the roofline: TPOT",
            unit="ms",
            published=run["tpot_ms"][0],
            predicted=1e3 * per_token_s(load, named_workload("article"), 0),
        )


def _current_release() -> Iterator[Check]:
    """The current release on H100, compared with the roofline, which was not fitted to it."""
    record = EngineShape(data_parallel=1, max_num_batched_tokens=16_384, max_num_seqs=256, language_model_only=True)
    article = named_workload("article")
    for name, run in ledger.section("h100", "runs").items():
        engine = record if run["mtp"] else replace(record, speculative_tokens=0)
        deployment = Deployment(nodes=1, gpu=H100, gpus_per_node=1, engine=engine)
        load = _load(deployment, float(run["in_flight"]), known(deployment).engine)
        what = f"H100, vLLM 0.33.0, {'MTP-1' if run['mtp'] else 'no MTP'}, {run['in_flight']} in flight" + (
            ", later" if "again" in name else ""
        )
        for metric, unit, published, predicted in (
            ("rate", "tok/s", run["total"], load.requests_per_s * article.tokens_per_request),
            ("tpot", "ms", run["tpot_ms"][0], 1e3 * per_token_s(load, article, 0)),
        ):
            yield Check(
                id=f"h100.{metric}-{name}",
                title=f"{what}, the roofline{': TPOT' if metric == 'tpot' else ''}",
                unit=unit,
                published=published,
                predicted=predicted,
            )
    for name, run in ledger.section("h100", "prefill").items():
        low, high = run["prompt_tokens"]
        prompts = replace(
            article,
            name=None,
            input_tokens=Lengths(min=low, mean=(low + high) / 2, max=high),
            output_tokens=Lengths(min=1, mean=1, max=1),
        )
        engine = record if run["mtp"] else replace(record, speculative_tokens=0)
        deployment = Deployment(nodes=1, gpu=H100, gpus_per_node=1, engine=engine)
        load = _load(deployment, float(run["in_flight"]), known(deployment).engine, prompts)
        yield Check(
            id=f"h100-prompts.rate-{name}",
            title=f"H100, vLLM 0.33.0, {'MTP-1' if run['mtp'] else 'no MTP'}, prompts alone of {low:,} to {high:,}, the roofline",
            unit="tok/s",
            published=run["prompt"],
            predicted=load.requests_per_s * prompts.input_tokens.mean,
        )


def starts() -> Iterator[Check]:
    """Cache memory left by logged engine starts."""
    for name, run in ledger.section("memory", "starts").items():
        shape = CATALOGUE[run["model"]].shape
        start = memory.startup(
            max_num_seqs=run["sequences"],
            max_num_batched_tokens=run["batched_tokens"],
            vocabulary=shape.vocabulary,
            step_width=shape.step_width,
            drafts=run["drafts"],
        )
        yield Check(
            id=f"start.{name}",
            title=f"start on {run['gpu']}, vLLM {run['vllm']}, {run['model'].partition('/')[2]}, {run['sequences']:,} sequences"
            + (", MTP" if run["drafts"] else "")
            + ": left for the cache"
            + (f" (gave {run['parts']})" if "parts" in run else ""),
            unit="GiB",
            published=run["cache_gib"],
            predicted=memory.cache_gib_per_gpu(
                gpu_memory_utilization=run["share"],
                gpu_memory_gib=run["gpu_gib"],
                weights_and_draft_gib=sum(getattr(shape, f"{part}_weights_gib") for part in run["held"]),
                logits_gib=start.logits_gib,
                overhead_gib=start.activations_gib + (start.graphs_gib if run["graphs"] else 0),
            ),
        )


def _trial_engine(*, prefix_caching: bool, engines: int = 1) -> Deployment:
    engine = EngineShape(
        data_parallel=engines,
        max_num_batched_tokens=16_384,
        max_num_seqs=_TRIAL_SEQUENCES,
        prefix_caching=prefix_caching,
        language_model_only=True,
    )
    return Deployment(nodes=1, gpu=H200, gpus_per_node=engines, engine=engine)


def _load(
    deployment: Deployment, in_flight: float, parameters: Parameters, workload: Workload | None = None
) -> FleetLoad:
    offered = OfferedLoad(in_flight=in_flight)
    return fleet_load(deployment, workload or named_workload("article"), offered, parameters, budget(deployment))


def _tokens_per_s(deployment: Deployment, in_flight: float) -> float:
    load = _load(deployment, in_flight, calibration().parameters)
    return load.requests_per_s * named_workload("article").tokens_per_request
