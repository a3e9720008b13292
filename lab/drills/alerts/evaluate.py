"""Evaluation of rules over given series, by Prometheus' rules engine (lab/control_plane/go/promrules).

Cloud Monitoring differs: rate and increase windows are at least a step and interpolated differently. As there, series have no
staleness markers and stay visible for five minutes. Source: Google Cloud docs, "PromQL compatibility".
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lab.control_plane import build
from lab.results.result import RehearsalError


@dataclass(frozen=True, slots=True)
class Sampled:
    """One series: a sample or None per interval."""

    labels: Mapping[str, str]
    """With `__name__`."""
    samples: Sequence[float | None]


@dataclass(frozen=True, kw_only=True)
class Question:
    """Rules over series."""

    rules: Mapping[str, Any]
    """As in Prometheus' rules file: {"groups": [...]}. Parsed strictly."""
    series: Iterable[str | Sampled]
    """Strings are in the notation of Prometheus' tests: name{label="value"} 0+10x20 _x5 stale."""
    interval_seconds: float
    """Between two samples, and between two evaluations."""
    minutes: float
    expressions: Sequence[str] = ()
    """Expressions to evaluate as well."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fired:
    """An alert that fired; times in seconds since the first sample."""

    alert: str
    labels: Mapping[str, str]
    """Including `severity`, without the alert's name."""
    pending_at: float
    firing_at: float
    resolved_at: float | None
    """None if it still fires at the end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Answer to one question."""

    error: str
    """Prometheus' error; empty on success."""
    fired: tuple[Fired, ...]
    values: Mapping[str, Any] = field(default_factory=dict)
    """By expression: [{"labels": ..., "samples": [[seconds, value], ...]}]."""


def evaluate(
    rule_groups: Mapping[str, Any], series: Iterable[str | Sampled], *, interval_seconds: float, minutes: float
) -> list[Fired]:
    """Alerts fired by these rules. Raises ValueError for what Prometheus refuses, and as `ask`."""
    asked = Question(rules=rule_groups, series=series, interval_seconds=interval_seconds, minutes=minutes)
    [answer] = ask([asked])
    if answer.error:
        raise ValueError(answer.error)
    return list(answer.fired)


def ask(questions: Sequence[Question]) -> list[Answer]:
    """All answers, by one run of the program, which is built unless cached. Raises RehearsalError."""
    program = build.promrules(lambda _: None)
    asked = [{**vars(question), "series": [_plain(series) for series in question.series]} for question in questions]
    done = subprocess.run(
        [program], input=json.dumps(asked, ensure_ascii=False), capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RehearsalError(f"promrules: {done.stderr.strip()}")
    return [
        Answer(
            error=answer["error"],
            fired=tuple(Fired(**alert) for alert in answer["alerts"] if alert["firing_at"] is not None),
            values=answer["values"],
        )
        for answer in json.loads(done.stdout)
    ]


def _plain(series: str | Sampled) -> dict[str, Any]:
    return {"series": series} if isinstance(series, str) else {"labels": series.labels, "samples": series.samples}
