"""The page about the model, docs/planner-model.md, and its pictures: `python -m docs.generate.model_page`.

The prose is in model_page.md.template; every number in it comes from the ledger, the calibration or the model itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from string import Template

from docs.generate.model_picture import pictures
from docs.generate.model_tables import (
    accuracy_table,
    assumptions_table,
    checks_table,
    front_end_table,
    latency_table,
    left_out_table,
    memory_facts_table,
    memory_table,
    parameters_table,
    public_sums_table,
    public_table,
    rows_table,
)
from facts import figures
from facts.machines import B200
from facts.models import of_the_article
from facts.releases import DEFECTS
from facts.workloads import named_workload
from fleet.plan.model.calibrate import left_out
from fleet.plan.model.calibration import FITTED, calibration, contents
from fleet.plan.model.deployment import Deployment, measured_load, record_fleet
from fleet.plan.model.errors import Error, errors, mean_percent
from fleet.plan.model.fleet_rate import FleetLoad, best_in_flight, fleet_load
from fleet.plan.model.gpu_memory import budget
from fleet.plan.model.latency import (
    FIRST_TOKEN_FACTOR,
    FIRST_TOKEN_STEPS,
    FRONT_END_S,
    first_token_in_engine_s,
    per_token_s,
)
from fleet.plan.model.performance import estimate
from fleet.plan.model.public_rows import rows
from fleet.plan.model.roofline import DENSE, EXPERTS_OR_LINEAR, HOPPER_FACTOR, known, roofline_of
from fleet.plan.model.rows import FITTED_LOADS, PHASES, QWEN_397B

DOCS = Path(__file__).parents[1]
PAGE = DOCS / "planner-model.md"
IMAGES = DOCS / "img"
TEMPLATE = Path(__file__).with_name("model_page.md.template")


def page() -> str:
    """The whole page as Markdown."""
    return Template(TEMPLATE.read_text(encoding="utf-8")).substitute(
        **_tables(), **_errors(), **_first_token(), **_others()
    )


def main() -> None:
    """Write page and pictures."""
    PAGE.write_text(page(), encoding="utf-8")
    for name, text in pictures().items():
        (IMAGES / name).write_text(text, encoding="utf-8")


def _tables() -> Mapping[str, str]:
    return {
        "parameters": _lines(parameters_table()),
        "assumptions": _lines(assumptions_table()),
        "fitted": _lines(rows_table("fitted")),
        "predicted": _lines(rows_table("predicted")),
        "memory": _lines(memory_table()),
        "memory_facts": _lines(memory_facts_table()),
        "checks": _lines(checks_table()),
        "accuracy": _lines(accuracy_table()),
        "left_out": _lines(left_out_table()),
        "public_chosen": _lines(public_table(chosen_on=True)),
        "public_tests": _lines(public_table(chosen_on=False)),
        "public_sums": _lines(public_sums_table()),
        "public_latency": _lines(latency_table()),
        "front_end": _lines(front_end_table()),
    }


def _errors() -> Mapping[str, str]:
    predicted = errors("predicted")
    by_id = {error.row.id: error for error in predicted}
    rates = [error for error in predicted if error.row.metric in ("total_tokens_per_s", "requests_per_s")]
    tpots = [error for error in predicted if error.row.metric == "tpot_ms"]
    lines = [error.line_percent for error in rates if error.line_percent is not None]
    return {
        "worst_rate": f"{_worst(rates):.1f}",
        "mean_rate": f"{mean_percent([error.percent for error in rates]):.1f}",
        "worst_tpot": f"{_worst(tpots):.1f}",
        "worst_line": f"{max(abs(percent) for percent in lines):.1f}",
        "mean_line": f"{mean_percent(lines):.1f}",
        "second_run_two": f"{by_id['cluster_ip_rerun.nodes-2'].percent:+.1f} %",
        "second_run_tpot": f"{by_id['cluster_ip_rerun.nodes-1:tpot_ms'].percent:+.1f} %",
        "left_out_worst": f"{max(abs(percent) for percent in left_out().values()):.1f}",
        "rounding": _rounding(by_id["cluster_ip.nodes-12"].row.published),
        "own_numbers": _own_numbers(),
        "gateway_constant": _gateway_constant(),
        "chunk_tokens": _chunk_tokens(),
    }


def _kept(id_: str) -> str:
    low, high = next(defect for defect in DEFECTS if defect.id == id_).throughput_kept
    return f"{100 * low:.0f} to {100 * high:.0f} %"


def _first_token() -> Mapping[str, str]:
    parameters, workload = calibration().parameters, named_workload("article")
    record = _record()
    without_wait, without_both = _record(wait_s=1e-9), _record(wait_s=1e-9, host_ms_per_step=0.0)
    tpot_s = per_token_s(record, workload, 0)
    return {
        "step_ms": f"{1e3 * record.engine.step_s:.0f}",
        "engine_first_s": f"{first_token_in_engine_s(record):.2f}",
        "wait_s": f"{parameters.wait_s:.1f}",
        "wait_percent": f"{100 * parameters.wait_share:.0f}",
        "lost_ms": f"{parameters.host_ms_per_step - known(record_fleet(1)).engine.host_ms_per_step:.0f}",
        "gain_reading": f"{_gain_of_one_engine():.0f}",
        "kept_b200": _kept("unaligned-fp8-rows-b200"),
        "kept_hopper": _kept("unaligned-fp8-rows-hopper"),
        "best_mtp2": f"{_best_in_flight(PHASES['phases.mtp2-095']):,.0f}",
        "host_ms": f"{parameters.host_ms_per_step:.0f}",
        "gain_wait": f"{_gain_percent(without_wait, record):.0f}",
        "gain_both": f"{_gain_percent(without_both, record):.0f}",
        "tpot_ms": f"{1e3 * tpot_s:.0f}",
        "tpot_without_wait_ms": f"{1e3 * per_token_s(without_wait, workload, 0):.0f}",
    }


def _gain_of_one_engine() -> float:
    rate = estimate(record_fleet(1), named_workload("article"), measured_load(1)).total_tokens_per_s
    assert rate.as_engine is not None
    return 100 * (rate.as_engine / rate.value - 1)


def _best_in_flight(deployment: Deployment) -> float:
    room = budget(deployment, named_workload("article"))
    return best_in_flight(deployment, named_workload("article"), calibration().parameters, room, 2_000)


def _others() -> Mapping[str, str]:
    fitted = contents()["fitted"]
    alone = [f"`{name}`" for name in FITTED if len(fitted[name]["rows"]) == 1]
    hosts = [f"{variant.host_ms_per_step:g}" for variant in calibration().variants.values()]
    joules = estimate(record_fleet(1), named_workload("article"), measured_load(1)).joules_per_million_tokens
    assert joules is not None
    return {
        "parameter_count": str(len(FITTED)),
        "rate_count": str(sum(error.row.metric == "total_tokens_per_s" for error in errors("fitted"))),
        "alone": " and ".join(alone),
        "variants": " and ".join(hosts),
        "weights_gib": f"{of_the_article().text_weights_gib + of_the_article().draft_weights_gib:.1f}",
        "dense_share": f"{DENSE.arithmetic_share:g}",
        "dense_us": f"{DENSE.layer_us:g}",
        "dense_factor": f"{DENSE.factor:g}",
        "experts_share": f"{EXPERTS_OR_LINEAR.arithmetic_share:g}",
        "experts_us": f"{EXPERTS_OR_LINEAR.layer_us:g}",
        "experts_factor": f"{EXPERTS_OR_LINEAR.factor:g}",
        "hopper_factor": f"{HOPPER_FACTOR:g}",
        "public_rows": str(len(rows())),
        "front_end_s": f"{FRONT_END_S:g}",
        "first_token_steps": str(FIRST_TOKEN_STEPS),
        "first_token_factor": f"{FIRST_TOKEN_FACTOR:g}",
        "large_times": _times_published(QWEN_397B, "phases.qwen-397b"),
        "record_times": _times_published(record_fleet(1), "cluster_ip.nodes-1"),
        "joules_low": f"{joules.low / 1e3:.0f}",
        "joules_high": f"{joules.high / 1e3:.0f}",
        "idle_watts": f"{B200.idle_watts:g}",
    }


def _times_published(deployment: Deployment, figure: str) -> str:
    """How far the roofline is above a run of the article."""
    line = roofline_of(deployment.model, EXPERTS_OR_LINEAR)
    load = fleet_load(deployment, named_workload("article"), measured_load(1), line, budget(deployment))
    published = figures.published(figure).total_tokens_per_s or 0
    return f"{load.requests_per_s * named_workload('article').tokens_per_request / published:.1f}"


def _worst(found: Iterable[Error]) -> float:
    return max(abs(error.percent) for error in found)


def _gateway_constant() -> str:
    """Errors of a constant share on the rows of four and eight nodes."""
    found = []
    for nodes in (4, 8):
        published = figures.published(f"gateway.nodes-{nodes}").total_tokens_per_s or 0
        rate = _load(record_fleet(nodes)).requests_per_s * named_workload("article").tokens_per_request
        found.append(f"{100 * (rate / (1 + calibration().parameters.gateway_share) / published - 1):.0f} %")
    return " and ".join(found)


def _rounding(published: float) -> str:
    """Errors on twelve nodes at either end of what rounds to the row of two."""
    fleet, workload = record_fleet(12), named_workload("article")
    rates = [
        fleet_load(fleet, workload, measured_load(12), parameters, budget(fleet)).requests_per_s
        * workload.tokens_per_request
        for parameters in calibration().rounding
    ]
    return " and ".join(f"{100 * (rate / published - 1):+.1f} %" for rate in rates)


def _own_numbers() -> str:
    """Errors on phases 2 and 1 without the number that each fixes."""
    found = []
    for figure, name in (("phases.dp8", "context_ms_per_1000_tokens"), ("phases.tp8", "tensor_parallel_ms_per_step")):
        fleet, workload = PHASES[figure], named_workload("article")
        parameters = replace(calibration().parameters, **{name: 0.0})
        load = fleet_load(fleet, workload, FITTED_LOADS[fleet], parameters, budget(fleet))
        published = figures.published(figure).total_tokens_per_s or 0
        found.append(f"{100 * (load.requests_per_s * workload.tokens_per_request / published - 1):+.0f} %")
    return " and ".join(found)


def _chunk_tokens() -> str:
    runs = [figures.published(f"cluster_ip_rerun.nodes-{nodes}").details for nodes in (1, 2, 4)]
    shares = [run["itl_ms"]["mean"] / run["tpot_ms"]["mean"] for run in runs]
    return f"{min(shares):.2f} to {max(shares):.2f}"


def _record(**changes: float) -> FleetLoad:
    return _load(record_fleet(1), **changes)


def _load(deployment: Deployment, **changes: float) -> FleetLoad:
    taken = calibration().parameters
    parameters = replace(
        taken,
        wait_s=changes.get("wait_s", taken.wait_s),
        host_ms_per_step=changes.get("host_ms_per_step", taken.host_ms_per_step),
    )
    workload = named_workload("article")
    return fleet_load(deployment, workload, measured_load(deployment.nodes), parameters, budget(deployment))


def _gain_percent(load: FleetLoad, over: FleetLoad) -> float:
    return 100 * (load.requests_per_s / over.requests_per_s - 1)


def _lines(table: Sequence[str]) -> str:
    return "\n".join(table) + "\n"


if __name__ == "__main__":
    main()
