"""Alerting rules over given series, evaluated by Prometheus' own engine: `promtool test rules`.

Cloud Monitoring differs: rate and increase windows are at least a step and interpolated differently. As there, given series have no
staleness markers and stay visible for five minutes. Source: Google Cloud docs, "PromQL compatibility".
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from subprocess import PIPE, STDOUT
from typing import Any

_OTHERWISE = re.compile(r'alertname=\\"(\w+)\\"')
_UNEVALUATED = re.compile(r"rule: (\w+), time")
"""What promtool says of a failed test: the expression of an expectation, the rule that has an error."""


@dataclass(frozen=True, kw_only=True)
class Expectation:
    """Series, and for every alerting rule whether it fires over them."""

    recordings: Sequence[Mapping[str, Any]]
    alerts: Sequence[Mapping[str, Any]]
    """Rules as in Prometheus' file, each under a name of its own."""
    series: Sequence[str]
    """In the notation of Prometheus' tests: name{label="value"} 0+10x20 _x5 stale."""
    interval_seconds: float
    """Between two samples."""
    evaluated_seconds: float
    """Between two evaluations of the rules."""
    minutes: float
    fires: bool
    """At the end; otherwise never from `since_minutes` on."""
    since_minutes: float = 0

    def rules(self) -> dict[str, Any]:
        """A rules file."""
        return {"groups": [{"name": "recordings", "rules": self.recordings}, {"name": "alerts", "rules": self.alerts}]}

    def tests(self, rules: str) -> dict[str, Any]:
        """A file of tests over the rules file of that name."""
        values = [dict(zip(("series", "values"), one.split("} ", 1), strict=True)) for one in self.series]
        return {
            "rule_files": [rules],
            "evaluation_interval": _duration(self.evaluated_seconds),
            "group_eval_order": ["recordings", "alerts"],
            "tests": [
                {
                    "interval": _duration(self.interval_seconds),
                    "input_series": [{**one, "series": f"{one['series']}}}"} for one in values],
                    "promql_expr_test": [self._test(rule["alert"]) for rule in self.alerts],
                }
            ],
        }

    def _test(self, alert: str) -> dict[str, Any]:
        seen = f'ALERTS{{alertname="{alert}",alertstate="firing"}}'
        window = _duration((self.minutes - self.since_minutes) * 60)
        return {
            "expr": f"group({seen})" if self.fires else f"group(max_over_time({seen}[{window}]))",
            "eval_time": _duration(self.minutes * 60),
            "exp_samples": [{"labels": "{}", "value": 1}] if self.fires else [],
        }


def wrong(expectations: Sequence[Expectation]) -> list[set[str]]:
    """For each expectation the alerts that do otherwise, or that Prometheus cannot evaluate. One run of `promtool` for all.

    Raises AssertionError for a rules file that Prometheus refuses.
    """
    found: list[set[str]] = [set() for _ in expectations]
    asked = list(enumerate(expectations))
    while asked:
        again = []
        for (number, one), (otherwise, unevaluated) in zip(asked, _failed([one for _, one in asked]), strict=True):
            found[number] |= otherwise | unevaluated
            rest = [rule for rule in one.alerts if rule["alert"] not in unevaluated]
            if unevaluated and rest:  # the first that cannot be evaluated ends the test
                again.append((number, replace(one, alerts=rest)))
        asked = again
    return found


def _failed(expectations: Sequence[Expectation]) -> Iterator[tuple[set[str], set[str]]]:
    """Of each: the alerts whose test failed, the rules that cannot be evaluated."""
    assert shutil.which("promtool"), "promtool is not installed (apt-get install --no-install-recommends prometheus)"
    with tempfile.TemporaryDirectory() as folder:
        files = []
        for number, one in enumerate(expectations):
            Path(folder, f"{number}.rules").write_text(json.dumps(one.rules()), encoding="utf-8")
            files.append(Path(folder, f"{number}.test"))
            files[-1].write_text(json.dumps(one.tests(f"{number}.rules")), encoding="utf-8")
        done = subprocess.run(
            ["promtool", "test", "rules", *map(str, files)],
            env={**os.environ, "GOGC": "400"},  # a quarter of its time otherwise
            stdout=PIPE,
            stderr=STDOUT,
            text=True,
            check=False,
        )
    told = re.split(r"^Unit Testing: .*$", done.stdout, flags=re.MULTILINE)[1:]
    assert len(told) == len(files), done.stdout
    for text in told:
        unevaluated, otherwise = set(_UNEVALUATED.findall(text)), set(_OTHERWISE.findall(text))
        assert unevaluated or otherwise or "FAILED" not in text, text
        yield otherwise, unevaluated


def _duration(seconds: float) -> str:
    return f"{round(seconds * 1000)}ms"
