"""A judged measurement as an outline: verdict, checks, figures, plots, servers, what was measured and how to measure it again.

The certificate's `Check` is a stored format; here it becomes a finding.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from facts.finding import Finding, Severity
from facts.texts import plural
from fleet.bench.report import against, article, captions, configuration, headline, tables, tables_each
from fleet.bench.report.shown import shown
from fleet.bench.report.texts import TEXTS
from fleet.report.charts import drawing
from fleet.report.outline import (
    Code,
    Element,
    Figure,
    Findings,
    Folding,
    Items,
    Next,
    Outline,
    Prose,
    Section,
    Tiles,
    some,
)
from fleet.report.words import sentence

if TYPE_CHECKING:
    from fleet.bench.folder import Asked
    from fleet.bench.measurement import Check, Judged, Measurement
    from fleet.bench.report.article import Published
    from fleet.bench.report.shown import Shown
    from fleet.report.charts import Plot
    from fleet.report.table import Table

_BLAMES: Final[Mapping[str, str]] = {
    "client": "the clients",
    "server": "the servers",
    "run": "the run",
    "data": "the data",
}
_FOLDING: Final[Mapping[str, Folding]] = {"failed": "open", "not measured": "always", "passed": "always"}


def outline(
    judged: Judged,
    plots: Sequence[Plot] = (),
    *,
    source: Path,
    entry: str | None = None,
    how_to_record: str = "",
    written: Path | None = None,
) -> Outline:
    """The whole report. `source` is the measurement's folder as the user named it; `entry` the entry for the claims ledger;
    `written` a file that has everything.
    """
    measurement, certificate = judged.measurement, judged.certificate
    found, published = shown(measurement), article.published(measurement.asked)
    drawn = {plot.id: plot for plot in plots}
    compared = against.outcome(judged.comparisons)
    certified = certificate.verdict == "certified"
    return Outline(
        title=headline.title(judged),
        verdict=f"{'✓' if certified else '✗'} {sentence(certificate.headline)}",
        tone="good" if certified else "bad",
        head=some(
            Prose(certificate.reason) if certificate.reason else None,
            Prose(f"{'✓' if compared.held else '✗'} {compared.words}", "plain" if compared.held else "bad")
            if compared
            else None,
            Prose(headline.subtitle(measurement), "soft"),
        ),
        body=(
            *_certificate(certificate.checks),
            *some(
                Section(
                    title="Against the baseline",
                    remark=judged.comparisons[0].baseline,
                    body=(against.comparisons(judged.comparisons),),
                    id="baseline",
                )
                if judged.comparisons
                else None,
                _figures(judged, found, published),
                _nodes(drawn, found, published),
                _load(drawn, found) if len(measurement.points) > 1 else None,
                _latency(drawn, found, published),
                _time(drawn, found),
                _clients(drawn, found),
                _engines(drawn, found),
                _power(drawn, found),
                _configuration(measurement, found),
                _left_out(measurement),
                Section(title=f"Remarks ({len(measurement.remarks)})", body=(Items(measurement.remarks),), id="remarks")
                if measurement.remarks
                else None,
                _ledger(entry, how_to_record),
                _again(measurement.asked, source),
                Next(str(written), "has everything") if written else None,
            ),
        ),
        footer=()
        if written
        else (f"Made by `fleet bench report` from `{source}`. How to read it: `docs/benchmark-report.md`.",),
    )


# Checks ---------------------------------------------------------------------------------------------------------------


def _certificate(checks: Sequence[Check]) -> Iterator[Section]:
    for verdict, folding in _FOLDING.items():
        these = [check for check in checks if check.verdict == verdict]
        if these:
            yield Section(
                title=f"{plural(len(these), 'check')} {verdict}",
                remark="; ".join(one.title for one in these) if verdict == "not measured" else "",
                body=(Findings(tuple(map(finding, these)), explains_passed=True),),
                id=f"{verdict.replace(' ', '-')}-checks",
                tone="bad" if verdict == "failed" else "plain",
                folding=folding,
            )


def finding(check: Check) -> Finding:
    """A check of the certificate. One that is not required warns where it failed."""
    failed: Severity = "error" if check.required else "warning"
    severities: Mapping[str, Severity] = {"passed": "passed", "failed": failed, "not measured": "unknown"}
    cause = f" Cause: {_BLAMES[check.blames]}." if check.verdict == "failed" else ""
    needed = "" if check.required else " Not required."
    return Finding(
        id=check.id,
        subject=check.title,
        severity=severities[check.verdict],
        found=check.found,
        allowed=check.allowed,
        why=f"{check.why}{cause}{needed}",
    )


# Sections -------------------------------------------------------------------------------------------------------------


def _plot(drawn: Mapping[str, Plot], name: str, caption: str = "", words: str = "") -> tuple[Element, ...]:
    """The plot, if there is one; `words` in its place where nothing is drawn."""
    said = (Prose(words),) if words else ()
    if name not in drawn:
        return said
    return (Figure(drawn=partial(drawing, drawn[name]), caption=caption, words=said),)


def _fold(title: str, table: Table, *, folding: Folding = "always") -> Section:
    return Section(title=title, body=(table,), folding=folding)


def _missing(name: str) -> Prose:
    return Prose(TEXTS[name], "soft")


def _figures(judged: Judged, found: Shown, published: Published) -> Section:
    measurement = judged.measurement
    asked = measurement.asked
    gap = None
    if asked is None:
        gap = _missing("not_asked")
    elif not asked.cost:
        gap = _missing("no_cost")
    failed = any(run.errors for run in measurement.runs)
    return Section(
        title="Figures",
        body=(
            Prose(headline.figures_of(judged, found)),
            Tiles(tuple(headline.numbers(judged, found, published))),
            Prose(headline.articles_way(found)),
            _fold("The shown run, counted in four ways", tables.windows(found.run), folding="always"),
            *some(
                gap,
                Section(title="Failed requests", body=(tables.errors(measurement.runs),), tone="warn")
                if failed
                else None,
            ),
        ),
        id="figures",
    )


def _nodes(drawn: Mapping[str, Plot], found: Shown, published: Published) -> Section:
    body: tuple[Element, ...] = (Prose(published.why_not, "soft"),)
    if "throughput-nodes" in drawn and found.nodes is not None:
        caption = captions.nodes_caption(found, published)
        table = tables.nodes(found, published, found.nodes)
        body = (*_plot(drawn, "throughput-nodes", caption), _fold("The plot as a table", table))
    return Section(title="Throughput against nodes", body=body, id="nodes", folding="screen")


def _load(drawn: Mapping[str, Plot], found: Shown) -> Section:
    plot = _plot(drawn, "throughput-load", captions.load_caption(found))
    return Section(title="Throughput against requests in flight", body=(*plot, tables.points(found)), id="load")


def _latency(drawn: Mapping[str, Plot], found: Shown, published: Published) -> Section:
    latencies = found.point.latencies
    no_limits = not any(run.goodput is not None for run in found.runs)
    return Section(
        title="Latency",
        body=(
            *_plot(drawn, "latency", captions.latency_caption(found, published)),
            tables.latency(found, published),
            *some(
                None if latencies.tpot and latencies.itl else _missing("no_chunks"),
                _missing("no_limits")
                if no_limits
                else Section(
                    title="Requests within the limits", body=(Prose(captions.limits(found)), tables.goodput(found))
                ),
            ),
        ),
        id="latency",
    )


def _time(drawn: Mapping[str, Plot], found: Shown) -> Section:
    body: tuple[Element, ...] = (_missing("no_timeline"),)
    if "throughput-time" in drawn:
        body = (
            *_plot(drawn, "throughput-time", captions.time_caption(found)),
            *_plot(drawn, "in-flight", "Below the dashed line, clients were too slow to send or prompts ran out."),
        )
    every = _plot(drawn, "runs", captions.runs_caption(found))
    runs = plural(len(found.measurement.runs), "run")
    return Section(
        title="Over time",
        body=(
            Prose(captions.format_run(found)),
            *body,
            *some(Section(title="Every run", body=every) if every else None),
            _fold(f"{runs} as a table", tables.runs(found)),
        ),
        id="time",
        folding="screen",
    )


def _clients(drawn: Mapping[str, Plot], found: Shown) -> Section:
    caption = "One bar for each client of this run. A client near a full core measures itself instead of the server."
    witnessed = any(client.cpu_share_peak is not None for client in found.run.clients)
    clients = plural(len(found.run.clients), "client")
    return Section(
        title="The clients",
        body=(
            *_plot(drawn, "clients", caption),
            *some(None if witnessed else _missing("no_witness")),
            _fold(f"{clients} as a table", tables_each.clients(found.run)),
        ),
        id="clients",
        folding="screen",
    )


def _engines(drawn: Mapping[str, Plot], found: Shown) -> Section:
    server = found.run.server
    if server is None or not server.engines:
        return Section(title="The engines", body=(_missing("no_metrics"),), id="engines")
    caption = captions.engines_caption(found)
    tiles = tuple(headline.server_numbers(server))
    with_mfu = any(engine.tflops_mean is not None for engine in server.engines)
    queue = _plot(drawn, "cache-queue", "Sampled every second from every server.")
    engines = plural(len(server.engines), "engine")
    return Section(
        title="The engines",
        body=(
            *_plot(drawn, "engines", caption, caption),
            *some(Tiles(tiles) if tiles else None),
            _fold(f"{engines} as a table", tables_each.engines(found.run, server)),
            _missing("mfu" if with_mfu else "no_mfu"),
            *some(Section(title="KV cache and queue over time", body=queue) if queue else None),
        ),
        id="engines",
    )


def _power(drawn: Mapping[str, Plot], found: Shown) -> Section:
    gpus = found.run.gpus
    body: tuple[Element, ...]
    if gpus is None or not gpus.readings:
        body = (_missing("no_gpus"),)
    else:
        caption = captions.power_caption(found)
        body = (
            *_plot(drawn, "power", caption, caption),
            tables_each.gpus(found.run, gpus),
            *some(_missing("no_power") if drawn and "power" not in drawn else None),
        )
    problem = Prose(gpus.problem, "warn") if gpus is not None and gpus.problem else None
    return Section(title="The GPUs", body=(*body, *some(problem)), id="power")


def _configuration(measurement: Measurement, found: Shown) -> Section:
    asked = measurement.asked
    what: tuple[Element, ...] = (_missing("not_asked"),)
    if asked is not None:
        what = (
            configuration.stack(asked),
            Section(title="Workload and load", body=(configuration.load(measurement, asked),)),
            _fold("vLLM's options and environment", configuration.flags(asked)),
        )
    return Section(
        title="What was measured",
        body=(
            *what,
            Section(title="How", body=(configuration.method(found),)),
            Section(title="Validity", body=(Prose(captions.holds_for(found)),)),
        ),
        id="configuration",
        folding="screen",
    )


def _left_out(measurement: Measurement) -> Section:
    excluded = tuple(f"`{one.file}`: {one.why}" for one in measurement.excluded)
    body = Items(excluded) if excluded else Prose("Nothing was left out.", "soft")
    return Section(title="Left out", remark=f"{len(excluded)}" if excluded else "", body=(body,), id="left-out")


def _ledger(entry: str | None, how_to_record: str) -> Section:
    return Section(
        title="For the claims ledger",
        body=(Prose(how_to_record), *some(Code(tuple(entry.rstrip().split("\n")), "yaml") if entry else None)),
        id="ledger",
        folding="screen",
    )


def _again(asked: Asked | None, source: Path) -> Section:
    body: list[Element] = []
    if asked is not None:
        body += [
            Prose(f"Below `config:` in `Pulumi.{asked.stack}.yaml`:"),
            Code(tuple(configuration.settings_block(asked).split("\n")), "yaml"),
            Prose("Measure again, into a new folder:"),
            Code((configuration.measure_again(asked),), "sh"),
        ]
    body += [
        Prose("Make this page again from the same results:"),
        Code((configuration.report_again(source),), "sh"),
    ]
    return Section(title="Measure it again", body=tuple(body), id="again", folding="screen")
