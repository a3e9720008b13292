"""A plan as JSON: the fields of its dataclasses and some properties, in camelCase. docs/plan.md lists the keys."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any, Final

from facts.texts import camel_case

if TYPE_CHECKING:
    from fleet.plan.plan import Plan
    from fleet.plan.question.goals import PlanQuestion

_LEFT_OUT: Final = frozenset({"question", "deployment", "layout", "factor", "shape"})
"""Fields that repeat the question, or are inputs of the arithmetic."""
_PROPERTIES: Final[Mapping[str, tuple[str, ...]]] = {
    "Plan": ("gpus", "utilisation", "label"),
    "Bill": ("usd_per_hour", "unknown", "residual_usd_per_hour"),
    "BatchRun": ("total_hours",),
    "Match": ("kind", "reason"),
    "MemoryBudget": ("kv_tokens",),
    "TimeToServe": ("low_seconds", "likely_seconds", "high_seconds"),
    "Verdict": ("holds",),
}


def plan_document(plan: Plan) -> dict[str, Any]:
    """The plan."""
    return {"question": _question(plan.question), "plan": plain(plan)}


def no_plan_document(question: PlanQuestion) -> dict[str, Any]:
    """The question that no fleet answers."""
    return {"question": _question(question), "plan": None}


def plain(value: Any) -> Any:
    """Dataclasses as mappings, their names in camelCase."""
    if is_dataclass(value):
        names = [one.name for one in fields(value) if one.name not in _LEFT_OUT]
        names += _PROPERTIES.get(type(value).__name__, ())
        return {camel_case(name): plain(getattr(value, name)) for name in names}
    if isinstance(value, Mapping):
        return {str(name): plain(item) for name, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, list | tuple | frozenset) else value


def _question(question: PlanQuestion) -> dict[str, Any]:
    return {
        "goal": plain(question.goal),
        "profile": question.profile.name,
        "model": question.profile.model,
        "engineVersion": question.profile.engine_version,
        "inputTokens": plain(question.workload.input_tokens),
        "outputTokens": plain(question.workload.output_tokens),
        "limits": plain(question.limits),
        "machine": question.machine.type,
        "capacity": question.capacity,
        "region": question.region,
        "usdPerNodeHour": question.usd_per_node_hour,
        "dataParallel": question.profile.shape.data_parallel,
        "tensorParallel": question.profile.shape.tensor_parallel,
    }
