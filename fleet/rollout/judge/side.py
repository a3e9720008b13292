"""One side of a verdict, the old replica or the canary, from its measurement folders.

A side's folder is one measurement (with run.json) or contains several in sequence, plus
answers.json (answers.py) and pod.json (`Pod`) if written by `fleet rollout judge`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from fleet.bench.certificate.baseline import Baseline, BaselinePoint, of
from fleet.bench.certificate.certify import certify
from fleet.bench.errors import BenchmarkError
from fleet.bench.folder import RUN_FILE, Asked
from fleet.bench.measurement import Certificate, Check, Measurement, Run
from fleet.bench.merge.measure import merge_folder
from fleet.bench.repeats import overlapping
from fleet.rollout.judge.answers import ANSWERS_FILE, Answers
from fleet.rollout.judge.verdict import File, Part, declaration_of, parsed

POD_FILE: Final = "pod.json"
NOISE: Final = "repeats"
"""The check that repeats agree, which the interval of the difference replaces here."""


NO_SUCCESS: Final = "requests failed"
"""A merge's message for a client without any answered request."""


class Pod(Part):
    """pod.json: the pod that was measured, before and after."""

    name: str
    node: str
    restarts: int | None
    """Container restarts during the measurement. None: the pod was gone at the end."""
    failed: str = ""
    """Why its benchmark Job failed, or empty."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """Data of a replica."""

    name: str
    asked: tuple[Asked, ...]
    """run.json of each measurement, including damaged ones."""
    measurements: tuple[Measurement, ...]
    certificates: tuple[Certificate, ...]
    answers: Answers | None = None
    pod: Pod | None = None
    problems: tuple[str, ...] = ()
    """Errors of damaged or incomplete folders."""

    @property
    def runs(self) -> tuple[Run, ...]:
        """All measurements, in order."""
        return tuple(run for measurement in self.measurements for run in measurement.runs)

    @property
    def faults(self) -> dict[str, Check]:
        """Failed or missing checks, by id."""
        checks = [check for certificate in self.certificates for check in certificate.checks if check.id != NOISE]
        gaps = [one for one in checks if one.verdict == "not measured" and one.required]
        return {gap.id: gap for gap in (*gaps, *(one for one in checks if one.verdict == "failed"))}

    def baseline(self) -> Baseline:
        """All measurements combined, every run a repeat."""
        single = [of(*pair) for pair in zip(self.measurements, self.certificates, strict=True)]
        points = [point for one in single for point in one.points]
        loads = sorted({point.connections for point in points})
        whole = {
            "name": f"{self.name} replica",
            "points": tuple(_pooled([point for point in points if point.connections == load]) for load in loads),
            "lacks": {name: check.verdict for name, check in self.faults.items()},
            "certificate": "not certified" if self.faults else "certified",
        }
        return single[0].model_copy(update=whole)


def _pooled(points: Sequence[BaselinePoint]) -> BaselinePoint:
    first, *more = points
    if not more:
        return first
    runs = {key: tuple(value for point in points for value in point.runs[key]) for key in first.runs}
    requests = sum(point.requests_per_connection for point in points) / len(points)
    return first.model_copy(update={"runs": runs, "requests_per_connection": requests})


def read_side(name: str, folder: Path) -> Side:
    """Reads a side from a folder. Raises BenchmarkError without measurements, or with those of several replicas."""
    folders = (
        [folder] if (folder / RUN_FILE).is_file() else sorted(path.parent for path in folder.glob(f"*/{RUN_FILE}"))
    )
    if not folders:
        raise BenchmarkError(
            f"{folder} contains no measurement; give a measurement folder (with run.json), or a folder of several"
        )
    asked = tuple(one for each in folders if (one := _file(each / RUN_FILE, Asked)) is not None)
    declared = {declaration_of(one.model_dump()) for one in asked}
    if len(declared) != 1:
        raise BenchmarkError(
            f"{folder} contains measurements of {len(declared)} configurations; expected one replica's"
        )
    for one in asked:
        require_one_load(f"{folder} holds measurements", asked[0], one)
    found = [_measurement(one) for one in folders]
    measurements = tuple(measurement for measurement, _ in found if measurement is not None)
    return Side(
        name=name,
        asked=asked,
        measurements=measurements,
        certificates=tuple(certify(one) for one in measurements),
        answers=_file(folder / ANSWERS_FILE, Answers),
        pod=_file(folder / POD_FILE, Pod),
        problems=tuple(problem for _, problem in found if problem),
    )


def require_one_load(which: str, one: Asked, other: Asked) -> None:
    """Raises BenchmarkError unless both have the same workload and load."""
    first, second = (
        {
            "workload": each.workload,
            "loads": each.points,
            "prompts_per_client": each.prompts_per_client,
            "replicas": each.shape.replicas,
            "routing": each.shape.routing,
        }
        for each in (one, other)
    )
    if unlike := [key for key, value in first.items() if value != second[key]]:
        raise BenchmarkError(
            f"{which} that differ in {', '.join(unlike)} ({one.name} and {other.name}); expected one workload and load"
        )


def require_in_turn(sides: Sequence[Side]) -> None:
    """Raises BenchmarkError for two runs at the same time, of one side or of both: one disturbs or is the other."""
    titles = {
        id(run): f"{side.name}, {measurement.asked.name if measurement.asked else 'unnamed'}, {run.title}"
        for side in sides
        for measurement in side.measurements
        for run in measurement.runs
    }
    if both := overlapping([run for side in sides for run in side.runs]):
        first, second = (titles[id(run)] for run in both)
        raise BenchmarkError(
            f"{second}: this run lies in the time of another ({first}); expected: measurements one after the other, each once"
        )


def _measurement(folder: Path) -> tuple[Measurement | None, str]:
    """An aborted measurement, of its complete runs."""
    try:
        measurement = merge_folder(folder)
    except BenchmarkError as error:
        return None, str(error)
    return measurement, "; ".join(measurement.missing)


def _file(path: Path, kind: type[File]) -> File | None:
    try:
        return parsed(path, kind)
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise BenchmarkError(f"{path} cannot be read: {' '.join(str(error).split())[:200]}") from None
