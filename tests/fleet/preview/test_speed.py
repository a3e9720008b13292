from __future__ import annotations

import argparse
import sys
from pathlib import Path

import pytest

from tests.fleet.preview.speed import Check, Sample, best_of, checks, grown_project, measure

LIMITS = argparse.Namespace(ratio=0.6, policies=1.3, growth=1.15, rss_mib=200.0, start=0.08)


def samples(**seconds: float) -> dict[str, list[Sample]]:
    times = {
        "import": 2.0,
        "preview": 1.0,
        "judged": 1.2,
        "grown": 1.1,
        "nothing": 0.01,
        "help": 0.1,
        "version": 0.05,
    } | seconds
    return {
        name: [Sample(second * factor, second * factor, 100.0) for factor in (0.9, 1.0, 5.0)]
        for name, second in times.items()
    }


def over(**seconds: float) -> list[str]:
    return [check.name for check in checks(samples(**seconds), LIMITS) if not check.passed]


def test_medians_within_the_limits_pass() -> None:
    assert over() == []


@pytest.mark.parametrize(
    ("seconds", "named"),
    [
        ({"preview": 1.3, "judged": 1.3, "grown": 1.3}, "bare SDK import"),
        ({"judged": 1.4}, "policy pack"),
        ({"grown": 1.2}, "1000 replicas"),
        ({"help": 0.2}, "fleet --help"),
        ({"version": 0.2}, "fleet --version"),
    ],
)
def test_a_figure_over_its_limit_is_named(seconds: dict[str, float], named: str) -> None:
    (found,) = over(**seconds)
    assert named in found


def test_memory_is_judged_by_the_worst_run() -> None:
    heavy = samples()
    heavy["preview"][1] = Sample(1.0, 1.0, 201.0)
    assert [check.value for check in checks(heavy, LIMITS) if not check.passed] == [201.0]


def test_each_figure_counts_as_it_was_best() -> None:
    first = best_of({}, [Check("a", 2.0, 1.0, "x"), Check("b", 0.5, 1.0, "x")])
    second = best_of(first, [Check("a", 0.9, 1.0, "x"), Check("b", 3.0, 1.0, "x")])
    assert {name: check.value for name, check in second.items()} == {"a": 0.9, "b": 0.5}
    assert not first["a"].passed
    assert all(check.passed for check in second.values())


def test_a_line_says_the_figure_its_limit_and_the_verdict() -> None:
    assert str(Check("memory", 10.0, 5.0, "MiB")).split() == ["memory", "10.000", "MiB", "limit", "5.000", "OVER"]


def test_a_run_that_fails_has_no_speed() -> None:
    with pytest.raises(SystemExit, match="ended with 3:\nboom"):
        measure([sys.executable, "-c", "import sys; sys.stderr.write('boom'); sys.exit(3)"], Path.cwd())


def test_the_grown_project_is_the_same_but_for_its_size() -> None:
    with grown_project() as root:
        text = (root / "Pulumi.spot.yaml").read_text()
        assert "replicas: 1000" in text
        assert (root / "__main__.py").read_text() == Path("__main__.py").read_text()
