"""Measurements as an outline: verdicts, three tables, four plots, the certificate's sixteen rows, and how to measure again."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from facts.finding import Finding, Severity
from facts.texts import plural
from fleet.bench.certificate import certify
from fleet.bench.measurement import Certificate, Check, Measurement, Point, Run
from fleet.bench.merge import merge_folder
from fleet.bench.report import article, plots, tables
from fleet.bench.report.article import Published
from fleet.report.outline import Box, Code, Element, Figure, Findings, Items, Outline, Prose, Section, some

_SEVERITIES: Final[Mapping[str, Severity]] = {"passed": "passed", "failed": "error", "not measured": "unknown"}


@dataclass(frozen=True, slots=True)
class Measured:
    """One folder, merged and judged."""

    folder: Path
    """As the user named it."""
    measurement: Measurement
    certificate: Certificate

    @property
    def is_certified(self) -> bool:
        """The verdict."""
        return self.certificate.verdict == "certified"

    @property
    def best(self) -> Point:
        """The load with the highest rate, which the plots and tables of latencies and GPUs show."""
        return max(self.measurement.points, key=lambda point: point.total_tokens_per_s.mean)

    @property
    def run(self) -> Run:
        """The repeat of that load whose rate is nearest to their mean."""
        runs = [run for run in self.measurement.runs if run.point == self.best.point]
        mean = self.best.total_tokens_per_s.mean
        return min(runs, key=lambda run: abs(run.looked_at.total_tokens_per_s - mean))


def measured(folder: Path) -> Measured:
    """The measurement in a folder with its certificate. Raises BenchmarkError."""
    merged = merge_folder(folder)
    return Measured(folder, merged, certify(merged))


def outline(found: Sequence[Measured]) -> Outline:
    """The report on one measurement or several."""
    certified = sum(one.is_certified for one in found)
    first = found[0]
    alone = len(found) == 1
    together = [one.measurement for one in found]
    return Outline(
        title=f"Benchmark of {', '.join(dict.fromkeys(one.measurement.asked.stack for one in found))}",
        verdict=first.certificate.headline if alone else f"{certified} of {len(found)} measurements are certified",
        tone="good" if certified == len(found) else "bad",
        head=some(
            Box(body=(Prose(f"{first.certificate.reason} Do not quote these figures."),), title="Not certified")
            if alone and not first.is_certified
            else None
        ),
        body=(
            _loads(together, article.published(first.measurement.asked)),
            *(_sections(first) if alone else (Section(title=_title(one), body=_sections(one)) for one in found)),
        ),
        footer=("How to read it: `docs/benchmark-report.md`.",),
        data={"measurements": [_data(one) for one in found]},
    )


def _title(one: Measured) -> str:
    asked = one.measurement.asked
    return f"{asked.stack}: {plural(asked.shape.replicas, 'node')}"


def _data(one: Measured) -> dict[str, object]:
    measurement = one.measurement
    return {
        "folder": str(one.folder),
        "asked": measurement.asked.model_dump(mode="json", by_alias=True),
        "certificate": one.certificate.model_dump(mode="json"),
        "points": [point.model_dump(mode="json") for point in measurement.points],
        "missing": list(measurement.missing),
        "remarks": list(measurement.remarks),
    }


def _loads(together: Sequence[Measurement], published: Published) -> Section:
    points = [point for one in together for point in one.points]
    return Section(
        title="Throughput",
        body=(
            Prose(
                "Rates are of the steady window, without warm-up and tail, with the 95 % interval of the repeats. The article's way is the "
                "sum of each client's rate over its own time: compare only it with the article's rows."
            ),
            tables.loads(together),
            *some(
                Figure(drawn=plots.by_nodes(together, published), caption="By nodes, beside the article's rows."),
                Prose(published.why_not, "soft") if published.why_not else None,
                Figure(drawn=plots.by_load(points), caption="By requests in flight.") if len(points) > 1 else None,
            ),
        ),
        id="throughput",
    )


def _sections(one: Measured) -> tuple[Section, ...]:
    measurement, run = one.measurement, one.run
    asked, published = measurement.asked, article.published(measurement.asked)
    told = (*measurement.missing, *measurement.remarks)
    gpus: list[Element] = [tables.gpus(run, asked.shape.machine_type)]
    problem = (
        "`fleet bench fetch` reads DCGM's series from managed Prometheus." if run.gpus is None else run.gpus.problem
    )
    if problem:
        gpus.append(Prose(problem, "soft"))
    which = f"Shown is {run.title}, at {one.best.connections:,} requests in flight: the repeat nearest to the mean of the fastest load."
    return (
        *_certificate(one.certificate.checks),
        Section(
            title="Over time",
            body=(Prose(which), Figure(drawn=plots.over_time(run), caption="Only what is not shaded counts.")),
        ),
        Section(
            title="Latency",
            body=(
                Figure(
                    drawn=plots.distributions(one.best.latencies, published),
                    caption="The percent that were as fast or faster; dots: p50 and p99, open squares: the article's.",
                ),
                tables.latency(one.best, published),
            ),
        ),
        Section(title="GPU activity", body=tuple(gpus)),
        *((Section(title="Remarks", body=(Items(told),)),) if told else ()),
        Section(title="Measure again", body=(Code(tuple(_commands(one)), "sh"),)),
    )


def _certificate(checks: Sequence[Check]) -> Iterator[Section]:
    sound = [check for check in checks if not check.prevents]
    for title, these in (
        ("Certificate", [check for check in checks if check.prevents]),
        ("Certificate: passed", sound),
    ):
        if these:
            yield Section(
                title=title,
                remark=plural(len(these), "row"),
                body=(Findings(tuple(map(finding, these)), explains_passed=True),),
                folding="always" if these is sound else "open",
            )


def finding(check: Check) -> Finding:
    """A row of the certificate."""
    return Finding(
        id=check.id,
        subject=check.title,
        severity=_SEVERITIES[check.verdict],
        found=check.found,
        allowed=check.allowed,
        why=check.why,
    )


def _commands(one: Measured) -> Iterator[str]:
    yield f"fleet bench run --stack {shlex.quote(one.measurement.asked.stack)}"
    yield f"fleet bench report {shlex.quote(str(one.folder))}"
