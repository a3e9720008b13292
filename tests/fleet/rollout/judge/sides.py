"""Sides of a judgement: two measurements of one replica with nothing wrong, and answers to every prompt."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache

from fleet.bench.certificate import certify
from fleet.bench.measurement import Measurement, Run
from fleet.rollout.judge.answers import Answer, Answers, Prompt, digest, prompts
from fleet.rollout.judge.side import Pod, Side
from fleet.rollout.judge.verdict import Reason, Verdict
from tests.fleet.bench.certificate.sound import every_run, sound


def good(prompt: Prompt) -> Answer:
    """What a sound server says: the result, and words of its own for each prompt."""
    first = [prompt.result] if prompt.result is not None else []
    numbers = tuple(first + [len(prompt.text) * 7 + place for place in range(40)])
    ends = "\n" if prompt.result is not None else " "
    return Answer(text=f" {numbers[0]}{ends}" + " ".join(map(str, numbers[1:])), tokens=numbers)


def answers(change: Callable[[Prompt, Answer], Answer] = lambda _, answer: answer) -> Answers:
    """Both rounds alike, after a change."""
    given = {id_: change(prompt, good(prompt)) for id_, prompt in prompts().items()}
    return Answers(prompts=digest(), rounds=(given, given))


def _alike() -> Measurement:
    """Repeats that do not differ at all, so that every difference is a test's own."""
    first = sound(1).runs[0]
    numbers = {run.name: {"name": run.name, "repeat": run.repeat, "whole": run.whole} for run in sound(1).runs}
    point = sound(1).points[0]
    total = point.total_tokens_per_s.model_copy(update={"variation": 0.0})
    return sound(1).model_copy(
        update={
            "runs": tuple(first.model_copy(update=change) for change in numbers.values()),
            "points": (point.model_copy(update={"total_tokens_per_s": total}),),
        }
    )


@cache
def replica(name: str) -> Side:
    """Certified, asked, and never restarted."""
    measured = (_alike(), _alike())
    asked = measured[0].asked
    return Side(
        name=name,
        asked=(asked, asked),
        measurements=measured,
        certificates=tuple(certify(one) for one in measured),
        answers=answers(),
        pod=Pod(name=f"{name}-pod", node="node-1", restarts=0),
    )


def with_runs(change: Callable[[int, Run], Run], name: str = "canary") -> Side:
    """Every run changed by its number over both measurements; certificates as if nothing had been."""
    side = replica(name)

    def changed(first: int, measured: Measurement) -> Measurement:
        numbers = iter(range(first, first + len(measured.runs)))
        return every_run(measured, lambda run: change(next(numbers), run))

    measured = tuple(changed(3 * number, one) for number, one in enumerate(side.measurements))
    return replace(side, measurements=measured)


def faster(factors: Callable[[int], float], name: str = "canary") -> Side:
    """The rates of the steady windows times a factor for each run."""

    def change(number: int, run: Run) -> Run:
        assert run.steady is not None
        by = factors(number)
        rates = {key: getattr(run.steady, key) * by for key in ("total_tokens_per_s", "output_tokens_per_s")}
        return run.model_copy(update={"steady": run.steady.model_copy(update=rates)})

    return with_runs(change, name)


def decided_by(verdict: Verdict, kind: str) -> set[str]:
    """Ids of the reasons that would decide so."""
    return {one.id for one in verdict.reasons if one.verdict == kind}


def reason(verdict: Verdict, id_: str) -> Reason:
    """The line with that id."""
    return next(one for one in verdict.reasons if one.id == id_)
