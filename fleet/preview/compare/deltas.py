"""A stack's numbers before and after: price, throughput, GPUs, nodes.

The program exports its price and the published figure of its shape, so a recording and
a state both contain them, each computed by its own version.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from fleet.preview.compare.changes import Delta
from fleet.preview.compare.gpu_pods import gpu_pods
from fleet.preview.record.recording import RecordedResource

_FROM_OUTPUTS: Final = (
    ("usd-per-hour", "USD an hour", "USD an hour", "usdPerHour"),
    ("usd-per-hour-at-fewest", "USD an hour with the fewest replicas", "USD an hour", "usdPerHourAtFewest"),
    ("usd-per-million-tokens", "USD per million tokens", "USD per million tokens", "usdPerMillionTokens"),
    (
        "usd-per-million-output-tokens",
        "USD per million output tokens",
        "USD per million tokens",
        "usdPerMillionOutputTokens",
    ),
    ("tokens-per-second", "tokens per second, published or measured", "tok/s", "publishedTotalTokensPerSecond"),
    (
        "output-tokens-per-second",
        "output tokens per second, published or measured",
        "tok/s",
        "publishedOutputTokensPerSecond",
    ),
)
_AT_LEAST: Final = "usdPerHourIsAtLeast"
"""Export that marks the price, and numbers derived from it, as lower bounds."""


@dataclass(frozen=True, slots=True)
class _Numbers:
    values: Mapping[str, float | None]
    at_least: bool


def deltas(
    old: Sequence[RecordedResource],
    old_outputs: Mapping[str, Any],
    new: Sequence[RecordedResource],
    new_outputs: Mapping[str, Any],
) -> tuple[Delta, ...]:
    """Every number known for at least one side."""
    before, after = _numbers(old, old_outputs), _numbers(new, new_outputs)
    labels = (*((id_, label, unit) for id_, label, unit, _ in _FROM_OUTPUTS), *_COUNTED)
    return tuple(
        Delta(
            id=id_,
            label=label,
            unit=unit,
            before=before.values[id_],
            after=after.values[id_],
            before_at_least=before.at_least and unit.startswith("USD") and before.values[id_] is not None,
            after_at_least=after.at_least and unit.startswith("USD") and after.values[id_] is not None,
        )
        for id_, label, unit in labels
        if before.values[id_] is not None or after.values[id_] is not None
    )


_COUNTED: Final = (("replicas", "replicas", ""), ("gpus", "GPUs", ""), ("nodes", "GPU nodes", ""))


def _numbers(resources: Sequence[RecordedResource], outputs: Mapping[str, Any]) -> _Numbers:
    if not resources:  # an empty stack has no price and no rate
        nothing: dict[str, float | None] = dict.fromkeys([id_ for id_, *_ in (*_FROM_OUTPUTS, *_COUNTED)])
        return _Numbers(nothing | dict.fromkeys(("usd-per-hour", "replicas", "gpus", "nodes"), 0), False)
    values = {id_: _number(outputs.get(name)) for id_, _, _, name in _FROM_OUTPUTS}
    pods = list(gpu_pods(resources))
    known = all(pod.replicas is not None for pod in pods)
    gpus = sum(pod.gpus for pod in pods)
    values["replicas"] = sum(pod.counted for pod in pods) if known else None
    values["gpus"] = gpus if known else None
    values["nodes"] = sum(pod.nodes for pod in pods) if known else None
    return _Numbers(values, outputs.get(_AT_LEAST) is True)


def _number(value: Any) -> float | None:
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else None
