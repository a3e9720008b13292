"""What rates, latencies, failures and engines come to, on synthetic results."""

from __future__ import annotations

import io
import random
import re
from collections.abc import Callable
from dataclasses import replace
from math import sqrt
from typing import Any

import pytest

from fleet.bench.certificate.baseline import shared_confidence
from fleet.bench.measurement import Certificate, Run
from fleet.bench.repeats import estimate, welch_half_width
from fleet.bench.student_t import two_sided
from fleet.report.as_text import print_text
from fleet.report.terminal import Paper
from fleet.rollout.judge.figures import PROMOTING, decided, runs_to_decide
from fleet.rollout.judge.judging import judge, outline
from fleet.rollout.judge.side import Pod, Side
from fleet.rollout.judge.verdict import Limits, declaration_of
from tests.fleet.rollout.judge.sides import decided_by, faster, reason, replica, with_runs

OLD = replica("old")
NOISY = (1.0, 0.97, 1.03, 0.985, 1.0225, 0.9775)


def test_an_equal_canary_is_promoted() -> None:
    verdict = judge(OLD, replica("canary"), Limits())
    assert verdict.verdict == "promote"
    assert not decided_by(verdict, "reject") | decided_by(verdict, "undecided")
    assert {
        "throughput",
        "ttft-p99",
        "tpot-p50",
        "errors",
        "acceptance",
        "kv-cache",
        "agreement",
        "drift",
    } <= decided_by(verdict, "promote")


@pytest.mark.parametrize(("factor", "found"), [(0.9, "reject"), (0.97, "reject"), (0.99, "promote"), (1.2, "promote")])
def test_throughput_may_be_lower_by_its_limit(factor: float, found: str) -> None:
    verdict = judge(OLD, faster(lambda _: factor), Limits())
    assert verdict.verdict == found
    assert decided_by(verdict, "reject") == ({"throughput", "output"} if found == "reject" else set())
    assert judge(OLD, faster(lambda _: factor), Limits(throughput=0.2)).verdict == "promote"


def test_a_noisy_canary_is_undecided_and_says_how_many_runs_would_decide() -> None:
    verdict = judge(OLD, faster(lambda number: NOISY[number]), Limits())
    assert decided_by(verdict, "undecided") == {"throughput", "output"}
    found = re.search(r"--repeats (\d+) would", reason(verdict, "throughput").evidence)
    assert found is not None
    # So many runs of each that spread alike do decide, and a repeat fewer would not.
    runs, fewer = 2 * int(found[1]), 2 * int(found[1]) - 2
    before, after, confidence = [1.0] * 6, list(NOISY), PROMOTING
    gap = 0.02 - (1 - sum(after) / 6)

    def half_width(runs: int) -> float:
        spread = sqrt(sum((one - sum(after) / 6) ** 2 for one in after) / 5)
        return two_sided(runs - 1, confidence) * spread / sqrt(runs)

    assert half_width(runs) <= gap < half_width(fewer)
    assert runs_to_decide(estimate(before), estimate(after), 1e-6, confidence) is None


def test_a_latency_is_judged_by_its_own_limit() -> None:
    def slower(_: int, run: Run) -> Run:
        ttft = run.latencies.ttft.model_copy(update={"p99": run.latencies.ttft.p99 * 1.2})
        return run.model_copy(update={"latencies": run.latencies.model_copy(update={"ttft": ttft})})

    verdict = judge(OLD, with_runs(slower), Limits())
    assert decided_by(verdict, "reject") == {"ttft-p99"}


def test_false_alarms_are_rare_and_shared_over_the_figures() -> None:
    """Two sides whose true loss is exactly the limit, and two that are equal."""
    drawn, confidence, limit = random.Random(17), shared_confidence(6), 0.02
    found = {"promote": 0, "reject": 0, "undecided": 0}
    equal = {"promote": 0, "reject": 0, "undecided": 0}
    for _ in range(150):
        before = [drawn.gauss(100, 1) for _ in range(4)]
        for mean, counts in ((98, found), (100, equal)):
            after = [drawn.gauss(mean, 1) for _ in range(4)]
            base = sum(before) / 4
            noises = tuple(welch_half_width(before, after, one) / base for one in (PROMOTING, confidence))
            counts[decided(1 - sum(after) / 4 / base, (noises[0], noises[1]), limit)] += 1
    # At the limit, one in twenty is promoted and 0.4 % rejected: 15 of 150 would be one in two hundred such tests.
    assert found["promote"] <= 15
    assert found["reject"] <= 3
    assert equal["reject"] == 0
    # All at once, as for rejection, it would be one in four.
    assert equal["promote"] > 100


def certificate_of(side: Side, **verdicts: tuple[str, str]) -> Side:
    """Checks with another verdict and blame, by id with _ for -."""
    wrong = {name.replace("_", "-"): value for name, value in verdicts.items()}

    def changed(one: Certificate) -> Certificate:
        checks = [
            check.model_copy(update={"verdict": wrong[check.id][0], "blames": wrong[check.id][1]})
            if check.id in wrong
            else check
            for check in one.checks
        ]
        return one.model_copy(update={"checks": tuple(checks)})

    return replace(side, certificates=tuple(changed(one) for one in side.certificates))


@pytest.mark.parametrize(
    ("old", "canary", "found"),
    [
        ({}, {"failures": ("failed", "server")}, "reject"),
        ({"failures": ("failed", "server")}, {"failures": ("failed", "server")}, "undecided"),
        ({"failures": ("failed", "server")}, {}, "undecided"),
        ({}, {"client_cpu": ("failed", "client")}, "undecided"),
        ({}, {"foreign_traffic": ("failed", "data")}, "undecided"),
        ({}, {"engine_balance": ("not measured", "server")}, "undecided"),
        ({"repeats": ("failed", "run")}, {"repeats": ("not measured", "run")}, "promote"),
    ],
)
def test_whose_fault_a_certificate_is(old: dict[str, Any], canary: dict[str, Any], found: str) -> None:
    verdict = judge(certificate_of(OLD, **old), certificate_of(replica("canary"), **canary), Limits())
    assert (verdict.verdict, reason(verdict, "certificate").verdict) == (found, found)
    # Nothing is compared that is not certified.
    assert any(one.id == "throughput" for one in verdict.reasons) == (found == "promote")


def _asked(side: Side, **changes: Any) -> Side:
    asked = side.asked[0].model_copy(update={"shape": side.asked[0].shape.model_copy(update=changes)})
    measured = tuple(one.model_copy(update={"asked": asked}) for one in side.measurements)
    return replace(side, asked=(asked, asked), measurements=measured)


def test_a_canary_may_differ_in_what_it_is_for_and_in_nothing_else() -> None:
    other = _asked(replica("canary"), engine_version="0.33.0", flags={"max-model-len": 4096}, env={})
    verdict = judge(OLD, other, Limits())
    assert verdict.verdict == "promote"
    assert verdict.declaration != judge(OLD, replica("canary"), Limits()).declaration
    assert judge(OLD, _asked(replica("canary"), machine_type="g2-standard-12"), Limits()).verdict == "undecided"


def test_a_declaration_is_of_what_is_served_and_not_of_how_it_was_measured() -> None:
    run = OLD.asked[0].model_dump()
    measured = {**run, "name": "another", "repeats": 9, "shape": {**run["shape"], "replicas": 7, "workload": "trace"}}
    assert declaration_of(measured) == declaration_of(run)
    assert declaration_of({**run, "image": "v0.33.0@sha256:1"}) != declaration_of(run)
    assert declaration_of({**run, "release": "1" * 64}) != declaration_of(run)


@pytest.mark.parametrize(
    ("name", "pod", "found"),
    [
        ("canary", {"restarts": 1}, "reject"),
        ("canary", {"restarts": None}, "reject"),
        ("canary", {"failed": "DeadlineExceeded"}, "undecided"),
        ("old", {"restarts": 1}, "undecided"),
    ],
)
def test_a_replica_that_restarts_is_told(name: str, pod: dict[str, Any], found: str) -> None:
    given = Pod(**{"name": "pod", "node": "", "restarts": 0, **pod})
    sides = {side: replica(side) for side in ("old", "canary")}
    sides[name] = replace(sides[name], pod=given)
    verdict = judge(sides["old"], sides["canary"], Limits())
    assert (verdict.verdict, reason(verdict, f"restarts-{name}").verdict) == (found, found)


def _server(**changes: Any) -> Callable[[int, Run], Run]:
    def change(_: int, run: Run) -> Run:
        assert run.server is not None
        return run.model_copy(update={"server": run.server.model_copy(update=changes)})

    return change


def test_what_engines_tell_is_held_against_its_limits() -> None:
    cache = OLD.runs[0].server
    assert cache is not None
    smaller = {**cache.cache_config, "num_gpu_blocks": str(int(cache.cache_config["num_gpu_blocks"]) * 8 // 10)}
    assert decided_by(judge(OLD, with_runs(_server(cache_config=smaller)), Limits()), "reject") == {"kv-cache"}
    assert decided_by(judge(OLD, with_runs(_server(acceptance_rate=0.5)), Limits()), "reject") == {"acceptance"}
    # A canary that does not speculate is there to be tried.
    without = judge(OLD, with_runs(_server(acceptance_rate=None)), Limits())
    assert (without.verdict, reason(without, "acceptance").verdict) == ("promote", "note")


def test_a_share_of_accepted_tokens_has_an_interval() -> None:
    shares = (0.4, 0.9, 0.5, 0.95, 0.6, 0.93)

    def change(number: int, run: Run) -> Run:
        assert run.server is not None
        return run.model_copy(update={"server": run.server.model_copy(update={"acceptance_rate": shares[number]})})

    assert "acceptance" in decided_by(judge(OLD, with_runs(change), Limits()), "undecided")


def test_a_handful_of_failures_may_be_chance() -> None:
    def change(count: int) -> Callable[[int, Run], Run]:
        # 3,840 requests in all six runs.
        return lambda number, run: run.model_copy(update={"completed": 640, "failed": count * (number == 0)})

    sides = {count: with_runs(change(count)) for count in (0, 3, 5, 8)}
    found = {count: reason(judge(sides[0], side, Limits()), "errors").verdict for count, side in sides.items()}
    assert found == {0: "promote", 3: "promote", 5: "undecided", 8: "reject"}


def test_limits_that_are_not_the_defaults_stand_in_the_headline() -> None:
    assert "with" not in judge(OLD, replica("canary"), Limits()).headline
    assert "throughput=50, kv-cache=20:" in judge(OLD, replica("canary"), Limits(throughput=0.5, kv_cache=0.2)).headline


def test_what_cannot_be_decided_with_the_runs_allowed_names_a_wider_limit() -> None:
    wild = (1.0, 0.8, 1.2, 0.85, 1.17, 0.9)
    line = reason(judge(OLD, faster(lambda number: wild[number]), Limits()), "throughput")
    told = re.search(r"--repeats 20, the most, would not .*--limit throughput=([\d.]+) would", line.evidence)
    assert (line.verdict, told is not None) == ("undecided", True)
    assert told is not None
    wider = Limits(throughput=float(told[1]) / 100)
    assert reason(judge(OLD, faster(lambda number: wild[number]), wider), "throughput").verdict == "promote"


def test_requests_that_fail_reject() -> None:
    failing = with_runs(lambda _, run: run.model_copy(update={"failed": run.completed // 100}))
    assert decided_by(judge(OLD, failing, Limits()), "reject") == {"errors"}


def test_an_old_replica_that_drifts_leaves_it_open() -> None:
    verdict = judge(faster(lambda number: 1.0 if number < 3 else 0.95, "old"), replica("canary"), Limits())
    assert "drift" in decided_by(verdict, "undecided")
    assert verdict.verdict == "undecided"


def test_what_was_not_judged_is_not_promoted() -> None:
    blind = replace(replica("canary"), measurements=(), certificates=())
    assert judge(OLD, blind, Limits()).verdict == "undecided"
    assert judge(OLD, replace(replica("canary"), answers=None), Limits()).verdict == "undecided"


def test_the_verdict_as_text(golden: Any) -> None:
    stream = io.StringIO()
    canary = replace(faster(lambda number: NOISY[number]), pod=Pod(name="canary-pod", node="node-2", restarts=1))
    print_text(Paper(stream=stream, width=100, styled=False), outline(judge(OLD, canary, Limits())))
    golden("rollout/verdict.txt", stream.getvalue())
