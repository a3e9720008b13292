"""The keys of a plan's JSON document. docs/plan.md lists them."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from facts import texts
from fleet.plan.routers import routers_for
from fleet.plan.words import format_goal, format_mean_lengths

if TYPE_CHECKING:
    from facts.routers import RouterSize
    from facts.time_to_serve import TimeToServe
    from facts.workloads import Lengths
    from fleet.plan.model.estimates import Estimate
    from fleet.plan.model.performance import Performance
    from fleet.plan.plan import Money, PerMillion, Plan
    from fleet.plan.question.goals import PlanQuestion

_ESTIMATES = (
    "total_tokens_per_s",
    "output_tokens_per_s",
    "requests_per_s",
    "in_flight",
    "seconds_per_request",
    "ttft_ms",
    "ttft_p99_ms",
    "tpot_ms",
    "running_per_engine",
    "kv_cache_peak_percent",
)


def plan_document(plan: Plan) -> dict[str, Any]:
    """The plan."""
    return camel_case({"question": _question(plan.question), "plan": _plan(plan)})


def no_plan_document(question: PlanQuestion) -> dict[str, Any]:
    """The question that no fleet answers."""
    return camel_case({"question": _question(question), "plan": None})


def camel_case(document: dict[str, Any]) -> dict[str, Any]:
    """The document with every key in camelCase."""
    return {texts.camel_case(key): _camel_case(item) for key, item in document.items()}


def _camel_case(value: Any) -> Any:
    if isinstance(value, dict):
        return camel_case(value)
    return [_camel_case(item) for item in value] if isinstance(value, list | tuple) else value


def _question(question: PlanQuestion) -> dict[str, Any]:
    return {
        "goal": {"kind": _kind(question), **asdict(question.goal)},
        "inWords": f"{format_goal(question)}, {format_mean_lengths(question.workload)}",
        "profile": question.profile.name,
        "model": question.profile.model,
        "engineVersion": question.profile.engine_version,
        "inputTokens": _lengths(question.workload.input_tokens),
        "outputTokens": _lengths(question.workload.output_tokens),
        "workload": question.workload.name,
        "limits": {"ttftP99Ms": question.limits.ttft_p99_ms, "tpotMs": question.limits.tpot_ms},
        "machine": question.machine.type,
        "capacity": question.capacity,
        "region": question.region,
        "routing": question.routing,
        "sizedAs": question.reading,
        "headroom": round(1 - question.load_share, 6),
        "hoursPerWeek": question.duty.hours_per_week,
        "startsFrom": question.starts_from,
        "compileCache": question.compile_cache,
    }


def _kind(question: PlanQuestion) -> str:
    names = {
        "TokensPerSecond": "tokens-per-second",
        "Users": "users",
        "RequestsPerSecond": "requests-per-second",
        "Budget": "usd-per-hour",
        "Batch": "documents",
    }
    return names[type(question.goal).__name__]


def _plan(plan: Plan) -> dict[str, Any]:
    sizing = plan.sizing
    match = plan.published
    return {
        "nodes": plan.nodes,
        "spares": plan.spares,
        "nodesAsEngine": plan.nodes_as_engine,
        "sparesWhy": plan.spares_why,
        "machines": plan.machines,
        "gpus": plan.gpus,
        "utilisation": plan.utilisation,
        "inFlightPerNode": plan.in_flight_per_node,
        "performance": _performance(plan.performance),
        "maximum": _performance(plan.maximum),
        "limits": [{**asdict(verdict), "holds": verdict.holds} for verdict in plan.verdicts],
        "money": _money(plan.money),
        "batch": None if plan.batch is None else {**asdict(plan.batch), "total_hours": plan.batch.total_hours},
        "sizing": asdict(sizing),
        "routers": _router(routers_for(plan)),
        "timeToServe": _way(plan.time_to_serve),
        "restart": _way(plan.restart),
        "confidence": {"basis": plan.basis, "label": plan.label, "reasons": list(plan.reasons)},
        "published": {
            "kind": match.kind,
            "reason": match.reason,
            "figure": None if match.figure is None else match.figure.id,
            "label": None if match.figure is None else match.figure.label,
            "totalTokensPerS": None if match.figure is None else match.figure.total_tokens_per_s,
            "outputTokensPerS": None if match.figure is None else match.figure.output_tokens_per_s,
        },
        "remarks": list(plan.remarks),
    }


def _router(found: RouterSize | None) -> dict[str, Any] | None:
    if found is None:
        return None
    return {
        "replicas": found.replicas,
        "cpu": found.cpu,
        "memoryGib": found.memory_gib,
        "busyCores": found.busy_cores,
    }


def _performance(performance: Performance) -> dict[str, Any]:
    memory = asdict(performance.memory)
    del memory["layout"]
    return {
        **{name: _estimate(getattr(performance, name)) for name in _ESTIMATES},
        "limited_by": performance.limited_by,
        "memory_gib_per_gpu": memory,
        "kv_tokens_per_engine": performance.memory.kv_tokens,
        "shortest_prompt_with_cache_hit_tokens": performance.shortest_prompt_with_cache_hit_tokens,
    }


def _estimate(estimate: Estimate) -> dict[str, Any]:
    return {
        "value": estimate.value,
        "low": estimate.low,
        "high": estimate.high,
        "as_engine": estimate.as_engine,
        "label": estimate.label,
    }


def _money(money: Money) -> dict[str, Any]:
    return {
        "usdPerHour": None if money.usd_per_node_hour is None else money.usd_per_hour,
        "usdPerNodeHour": money.usd_per_node_hour,
        "region": money.bill.region,
        "pricesOf": money.bill.format_price_dates(),
        "usdPerMonth": None if money.usd_per_node_hour is None else money.usd_per_month,
        "usdPerHourAtZeroReplicas": money.bill.residual_usd_per_hour,
        "atLeast": money.at_least,
        "pricesUnknown": list(money.bill.unknown),
        "usdPerMillionAtLoad": _per_million(money.at_load),
        "usdPerMillionAtFullLoad": _per_million(money.at_full_load),
        "apis": [
            {
                "id": api.price.id,
                "name": api.price.name,
                "usdPerMillion": api.usd_per_million,
                "exactMix": api.exact_mix,
                "breakEvenUtilisation": api.break_even_utilisation,
            }
            for api in money.apis
        ],
    }


def _per_million(amount: PerMillion | None) -> dict[str, float] | None:
    return None if amount is None else {"total": amount.total_usd, "output": amount.output_usd}


def _way(way: TimeToServe) -> dict[str, Any]:
    return {
        "lowSeconds": way.low_seconds,
        "likelySeconds": way.likely_seconds,
        "highSeconds": way.high_seconds,
        "steps": [asdict(step) for step in way.steps],
    }


def _lengths(lengths: Lengths) -> dict[str, float]:
    return {"min": lengths.min, "mean": lengths.mean, "max": lengths.max}
