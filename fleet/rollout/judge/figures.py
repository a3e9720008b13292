"""Verdict lines from the benchmark: rates and latencies with intervals, failures, speculation, cache, restarts, drift.

The interval of a difference is the certificate's (fleet/bench/certificate/baseline.py). A canary passes if even the worse end of
the interval is within the limit, and fails if even the better end is not. Every figure must pass for a promotion, so each is tested at
its own level (an intersection-union test). One figure is enough to reject, so for rejection all share the chance of error.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import ceil, sqrt
from typing import Final

from fleet.bench.certificate.baseline import Comparison, compare_baselines, shared_confidence
from fleet.bench.measurement import Estimate, Run
from fleet.bench.repeats import CONFIDENCE, estimate, welch_half_width
from fleet.bench.student_t import two_sided
from fleet.report.words import format_change, format_number, format_percent
from fleet.rollout.effort import PASSES
from fleet.rollout.judge.chance import more_by_chance
from fleet.rollout.judge.side import NO_SUCCESS, Side
from fleet.rollout.judge.verdict import MOST_REPEATS, Decision, Limits, Reason, reason

_FIGURES: Final[Mapping[str, tuple[str, str]]] = {
    "total tok/s": ("throughput", "throughput"),
    "output tok/s": ("output", "throughput"),
    "TTFT p50, ms": ("ttft-p50", "ttft"),
    "TTFT p99, ms": ("ttft-p99", "ttft"),
    "TPOT p50, ms": ("tpot-p50", "tpot"),
    "TPOT p99, ms": ("tpot-p99", "tpot"),
}
"""Quantity of a comparison -> a reason's id, and its limit. E2E follows from these."""
_CHANGED: Final = frozenset({"model", "engine_version", "flag", "env"})
"""Settings that a canary may change."""
MOST_RUNS: Final = PASSES * MOST_REPEATS
"""Of a side, that `fleet rollout judge` makes."""
PROMOTING: Final = 1 - 2 * (1 - CONFIDENCE)
"""Confidence of a one-sided interval: a loss of exactly the limit passes once in twenty times."""


def reasons(old: Side, canary: Side, limits: Limits) -> Iterator[Reason]:
    """All lines from measurements."""
    for side in (old, canary):
        yield _restarts(side)
        if side.problems:
            told = "; ".join(side.problems)
            dead = side is canary and NO_SUCCESS in told
            found = "no request of a client succeeded" if dead else "damaged or incomplete"
            yield reason(f"results-{side.name}", "reject" if dead else "undecided", found, "whole results", told)
    if old.measurements and canary.measurements:
        yield _certificates(old, canary)
        yield _errors(old, canary, limits)
        if not (old.faults or canary.faults):
            yield from _compared(old, canary, limits)
        yield from _engine(old, canary, limits)
        yield from _drift(old, limits)


def decided(loss: float, noises: tuple[float, float], limit: float) -> Decision:
    """Verdict from the worse end of the first interval (promotion) and the better end of the second (rejection)."""
    if loss + noises[0] <= limit:
        return "promote"
    return "reject" if loss - noises[1] > limit else "undecided"


def runs_to_decide(before: Estimate, after: Estimate, gap: float, confidence: float) -> int | None:
    """Runs per side for an interval narrower than the gap to the limit, at this spread; None if too many."""
    first, second = (((one.variation or 0.0) * one.mean / before.mean) ** 2 for one in (before, after))
    # Welch and Satterthwaite: twice the degrees of freedom of one side where both spread alike.
    sides = (first + second) ** 2 / (first**2 + second**2) if first + second else 2.0
    for runs in range(max(before.repeats, after.repeats) + 1, MOST_RUNS + 1):
        if two_sided(sides * (runs - 1), confidence) * sqrt((first + second) / runs) <= gap:
            return runs
    return None


def _compared(old: Side, canary: Side, limits: Limits) -> Iterator[Reason]:
    before, after = old.baseline(), canary.baseline()
    rejecting = shared_confidence(len(_FIGURES) * len({point.connections for point in (*before.points, *after.points)}))
    both = (compare_baselines(after, before, changed=_CHANGED, confidence=one) for one in (PROMOTING, rejecting))
    for one, other in zip(*both, strict=True):
        quantity, _, load = one.quantity.partition(" at ")
        if quantity in _FIGURES:
            id_, name = _FIGURES[quantity]
            named = f"{id_}@{load.split()[0]}" if load else id_
            noises = (one.noise_share, other.noise_share)
            yield _figure(named, name, one, noises, getattr(limits, name), rejecting)


def _figure(
    id_: str, name: str, one: Comparison, noises: tuple[float, float], limit: float, rejecting: float
) -> Reason:
    better = 1 if name == "throughput" else -1
    allowed = f"{'lower' if better > 0 else 'higher'} by at most {format_percent(limit)}"
    least = min(one.before.repeats, one.after.repeats)
    values = f"{format_number(one.before.mean)} to {format_number(one.after.mean)}"
    evidence = f"{one.quantity}: {values}, {one.before.repeats} and {one.after.repeats} runs"
    if one.verdict == "not comparable" or least < 2:
        why = one.why if one.verdict == "not comparable" else "one run has no spread, repeat it"
        return reason(id_, "undecided", f"not compared: {why}", allowed, evidence)
    loss = -better * one.change_share
    verdict = decided(loss, noises, limit)
    evidence += f"; {100 * PROMOTING:.4g} % interval; to reject ± {format_percent(noises[1])}"
    evidence += f" ({100 * rejecting:.4g} %, all figures share the chance of error)"
    if verdict == "undecided":
        runs = runs_to_decide(one.before, one.after, abs(limit - loss), PROMOTING if loss < limit else rejecting)
        evidence += f"; {_advice(runs, name, loss + noises[0])}"
    found = f"{format_change(one.change_share)} ± {format_percent(noises[0])}"
    return reason(id_, verdict, found, allowed, evidence)


def _advice(runs: int | None, name: str, worst: float) -> str:
    if runs is not None:
        return f"--repeats {ceil(runs / PASSES)} would decide at this spread"
    wider = (
        f"--limit {name}={ceil(1000 * worst) / 10:g} would promote" if worst <= 1 else "find out what disturbs the runs"
    )
    return f"--repeats {MOST_REPEATS}, the most, would not decide at this spread; {wider}"


def _restarts(side: Side) -> Reason:
    id_, pod, limit = f"restarts-{side.name}", side.pod, "none during the measurement"
    if pod is None:
        return reason(id_, "note", "not checked", limit, "no pod.json: only `fleet rollout judge` queries the cluster")
    wrong = (
        ["the pod is gone"]
        if pod.restarts is None
        else [f"{pod.restarts} restart{'s' * (pod.restarts > 1)}"]
        if pod.restarts
        else []
    )
    verdict: Decision = (
        "reject" if wrong and side.name == "canary" else "undecided" if wrong or pod.failed else "promote"
    )
    wrong += [f"its benchmark failed: {pod.failed}"] if pod.failed else []
    return reason(id_, verdict, "; ".join(wrong) or "0 restarts", limit, f"pod {pod.name} on {pod.node or 'no node'}")


def _certificates(old: Side, canary: Side) -> Reason:
    """A failed check of the canary's server alone rejects; any other failed check makes the comparison invalid."""
    theirs, faults = old.faults, canary.faults
    own = [
        fault
        for fault in faults.values()
        if (fault.verdict, fault.blames) == ("failed", "server") and fault.id not in theirs
    ]
    others = [("old", one) for one in theirs.values()] + [("canary", fault) for fault in faults.values()]
    told = [("canary", one) for one in own] or others
    verdict: Decision = "reject" if own else "undecided" if others else "promote"
    found = "; ".join(f"{name}: {one.id}: {one.found.partition('; ')[0]}" for name, one in told[:2]) or "both certified"
    limit = told[0][1].allowed if told else "certified, except for the spread of repeats"
    evidence = f"failed or missing checks: old {', '.join(theirs) or 'none'}; canary {', '.join(faults) or 'none'}"
    return reason("certificate", verdict, found, limit, evidence)


def _errors(old: Side, canary: Side, limits: Limits) -> Reason:
    failed = [sum(run.failed for run in side.runs) for side in (old, canary)]
    every = [max(1, sum(run.failed + run.completed for run in side.runs)) for side in (old, canary)]
    before, after = (part / whole for part, whole in zip(failed, every, strict=True))
    kinds = ", ".join(sorted({error.kind for run in canary.runs for error in run.errors})) or "no kind"
    chance = more_by_chance(failed[0], every[0], failed[1], every[1])
    verdict: Decision = "reject" if chance <= (1 - CONFIDENCE) / 2 else "undecided"
    if after - before <= limits.errors:
        verdict = "promote"
    limit = f"at most {format_percent(limits.errors, 2)} more than the old replica's {format_percent(before, 2)}"
    evidence = (
        f"{failed[1]:,} of {every[1]:,} requests ({kinds}); probability by chance: {chance:.2g} (Fisher's exact test)"
    )
    return reason("errors", verdict, f"{format_percent(after, 2)} failed", limit, evidence)


def _engine(old: Side, canary: Side, limits: Limits) -> Iterator[Reason]:
    """Engine metrics as means of all runs. The cache size is exact: an engine sets it at start."""
    loads = len({run.point for run in (*old.runs, *canary.runs)})
    rejecting = shared_confidence(len(_FIGURES) * loads)
    quantities = (
        ("acceptance", "accepted draft tokens, % of all", limits.acceptance, _acceptance),
        ("kv-cache", "tokens in an engine's KV cache", limits.kv_cache, _kv_tokens),
        ("preemptions", "preemptions per run (the certificate has the limit)", None, _preemptions),
    )
    for id_, what, limit, of in quantities:
        olds, news = ([value for run in side.runs if (value := of(run)) is not None] for side in (old, canary))
        before, after = means = [_mean(one) if one else None for one in (olds, news)]
        if before is None and after is None:
            continue
        evidence = f"{what}: {' to '.join('none' if one is None else f'{one:,.4g}' for one in means)}"
        if limit is None or not before or after is None:
            yield reason(id_, "note", evidence, "none", "without an interval")
            continue
        loss, found, allowed = (
            1 - after / before,
            format_change(after / before - 1),
            f"lower by at most {format_percent(limit)}",
        )
        noises = (0.0, 0.0)
        if id_ == "acceptance":
            if min(len(olds), len(news)) < 2:
                yield reason(id_, "undecided", f"{found}; one run has no spread, repeat it", allowed, evidence)
                continue
            noises = (
                welch_half_width(olds, news, PROMOTING) / before,
                welch_half_width(olds, news, rejecting) / before,
            )
            found += f" ± {format_percent(noises[0])}"
        verdict = decided(loss, noises, limit)
        if verdict == "undecided":
            confidence = PROMOTING if loss < limit else rejecting
            runs = runs_to_decide(estimate(olds), estimate(news), abs(limit - loss), confidence)
            evidence += f"; {_advice(runs, id_, loss + noises[0])}"
        yield reason(id_, verdict, found, allowed, evidence)


def _acceptance(run: Run) -> float | None:
    share = run.server.acceptance_rate if run.server else None
    return None if share is None else 100 * share


def _preemptions(run: Run) -> float | None:
    return run.server.preemptions if run.server else None


def _kv_tokens(run: Run) -> float | None:
    info = run.server.cache_config if run.server else {}
    blocks, size = (info.get(name, "") for name in ("num_gpu_blocks", "block_size"))
    return float(int(blocks) * int(size)) if blocks.isdecimal() and size.isdecimal() else None


def _drift(old: Side, limits: Limits) -> Iterator[Reason]:
    """Drift of the old replica between first and last measurement."""
    rates = [
        [run.steady.total_tokens_per_s for run in measurement.runs if run.steady] for measurement in old.measurements
    ]
    means = [_mean(rate) for rate in rates if rate]
    if len(means) > 1:
        change = means[-1] / means[0] - 1
        verdict: Decision = "promote" if abs(change) <= limits.throughput else "undecided"
        limit = f"at most {format_percent(limits.throughput)} either way"
        evidence = f"total tok/s of its measurements: {', '.join(map(format_number, means))}"
        yield reason("drift", verdict, f"old replica {format_change(change)} from first to last", limit, evidence)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
