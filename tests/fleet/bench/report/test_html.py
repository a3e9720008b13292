from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Literal

import pytest
import yaml

from fleet.bench.certificate import certify
from fleet.bench.folder import Asked, AskedPoint, AskedSlo
from fleet.bench.measurement import (
    Comparison,
    ErrorKind,
    Excluded,
    GpuReading,
    Histogram,
    Judged,
    Latencies,
    Measurement,
)
from fleet.bench.merge.gpus import _DCGM
from fleet.bench.recomputed import digest_of_all
from fleet.bench.record import as_yaml, entry_of
from fleet.bench.report import article
from fleet.bench.report.ledger_entry import entry
from fleet.bench.report.outline import finding
from fleet.bench.report.outline import outline as outline_of
from fleet.bench.report.plots import plots_of
from fleet.bench.report.shown import shown
from fleet.bench.report.tables import format_clocks
from fleet.bench.report.texts import TEXTS
from fleet.bench.report.words import interval
from fleet.report.as_html import html_text
from fleet.report.as_markdown import markdown_text
from fleet.report.outline import Element, Section, Tiles
from fleet.report.table import Table
from fleet.report.words import format_number
from settings.sections.benchmark import Benchmark
from tests.fleet.bench.certificate.sound import sound
from tests.fleet.bench.measurements import (
    CHECKS,
    FLAGS,
    a_bare_measurement,
    a_certificate,
    a_judged,
    a_measurement,
    a_sweep,
    an_asked,
    compared,
    estimate,
)
from tests.fleet.report.pages import Page

HOSTILE = "</title></style><script>alert(1)</script><img src=x onerror=alert(1)>&\"'` <svg onload=x>"
SOURCE = Path("bench/one")


class Report(Page):
    """A page with the outline that it was made from."""

    def __init__(
        self, judged: Judged, *, recorded: str | None = "entry: text", words: str = "how it is written"
    ) -> None:
        measurement = judged.measurement
        plots = plots_of(shown(measurement), article.published(measurement.asked))
        self.outline = outline_of(judged, plots, source=SOURCE, entry=recorded, how_to_record=words)
        self.text = html_text(self.outline)
        super().__init__(self.text)
        self.parts = list(_parts((*self.outline.head, *self.outline.body)))
        self.numbers = [number for part in self.parts if isinstance(part, Tiles) for number in part.numbers]

    def cells(self, table: str) -> list[list[str]]:
        (found,) = (part for part in self.parts if isinstance(part, Table) and part.id == table)
        rows = [[f"{cell.text} {cell.note}".strip() for cell in row] for row in found.rows]
        return [[column.title for column in found.columns], *rows]


def _parts(elements: Iterable[Element]) -> Iterator[Element]:
    for element in elements:
        yield element
        if isinstance(element, Section):
            yield from _parts(element.body)


def page_of(measurement: Measurement | None = None, **certificate: Any) -> Report:
    return Report(a_judged(measurement, a_certificate(**certificate)))


def plain(words: str) -> str:
    return " ".join(words.split()).replace("`", "")


@pytest.fixture(scope="module")
def whole() -> Report:
    return page_of()


def tiles(page: Report) -> dict[str, str]:
    return {number.name: number.now for number in page.numbers}


def test_the_page_of_a_measurement_with_everything_collected(golden: Callable[[str, str], None]) -> None:
    measurement = a_measurement(an_asked(replicas=1, repeats=3), remarks=("A remark about `merge`.",))
    judged = a_judged(measurement, a_certificate(failed=("client-cpu",), unknown=("engines",)))
    worse = compared("total tok/s", "regressed", -0.104)
    golden("bench/page.md", markdown_text(Report(judged.model_copy(update={"comparisons": (worse,)})).outline))


CASES = {
    "whole": a_judged,
    "not certified": lambda: a_judged(certificate=a_certificate(failed=("client-cpu",), unknown=("engines",))),
    "bare": lambda: a_judged(a_bare_measurement()),
    "sweep": lambda: a_judged(a_sweep()),
    "one node, once": lambda: a_judged(a_measurement(an_asked(replicas=1, repeats=1, slo=None, cost=None))),
}


@pytest.mark.parametrize("make", CASES.values(), ids=CASES)
def test_nothing_is_fetched_nothing_runs_and_every_reference_finds_its_id(make: Any) -> None:
    page = Report(make())
    text = page.text
    assert not [one for one in page.elements if one.tag in ("script", "link", "img", "iframe", "object", "use")]
    assert not [
        (one.tag, name)
        for one in page.elements
        for name in one.attributes
        if name in ("src", "srcset") or name.startswith("on")
    ]
    assert all(one.attributes["href"].removeprefix("#") in page.ids for one in page.all("a"))
    assert "//" not in re.sub(r"/\*.*?\*/", "", text)
    assert "url(" not in text
    policy = next(one for one in page.all("meta") if one.attributes.get("http-equiv") == "Content-Security-Policy")
    assert policy.attributes["content"] == "default-src 'none'; style-src 'unsafe-inline'"
    assert len(page.ids) == len(set(page.ids))
    for element in page.elements:
        for name in ("aria-labelledby", "aria-describedby"):
            if name in element.attributes:
                assert element.attributes[name] in page.ids
    assert len(text.encode()) < 1_500_000


def test_the_verdict_comes_first_and_failed_checks_stand_open() -> None:
    measurement = a_measurement(an_asked(repeats=1), collected=False)
    page = page_of(measurement, failed=("client-cpu", "errors"), unknown=("engines",))
    assert page.outline.tone == "bad"
    assert (
        plain(a_certificate(failed=("client-cpu", "errors"), unknown=("engines",)).headline) in page.all("h3")[0].words
    )
    for check in CHECKS:
        (found,) = [one for one in page.all("li") if one.words.startswith(f"{_mark(one)} {check.title}: {check.found}")]
        assert found.inside("details") != (check.id in ("client-cpu", "errors"))
        assert check.allowed in page.words
    assert "do not quote" in page.words


def _mark(element: Any) -> str:
    return str(element.words[:1])


def test_a_certified_measurement_has_its_checks_folded(whole: Report) -> None:
    assert whole.outline.tone == "good"
    assert {one.severity for one in outline_of(a_judged(), source=SOURCE).findings} == {"passed"}
    (passed,) = (part for part in whole.parts if isinstance(part, Section) and part.id == "passed-checks")
    assert passed.folding == "always"
    assert "do not quote" not in whole.words


def test_a_failed_check_says_its_cause_and_one_that_is_not_required_only_warns() -> None:
    (check,) = [one for one in a_certificate(failed=("client-cpu",)).checks if one.verdict == "failed"]
    optional = finding(check.model_copy(update={"required": False}))
    assert (finding(check).severity, optional.severity) == ("error", "warning")
    assert "Cause: the clients." in finding(check).why


OTHER_OPTIONS = {
    **FLAGS,
    "gpu-memory-utilization": 0.8,
    "max-model-len": 131_072,
    "swap-space": 4,
    "speculative-config.method": "eagle",
}


def test_a_stack_with_other_options_has_no_efficiency_and_is_told_what_differs() -> None:
    shape = an_asked(replicas=4).shape.model_copy(update={"flags": OTHER_OPTIONS})
    page = page_of(a_measurement(an_asked(replicas=4, repeats=1, shape=shape), collected=False))
    assert tiles(page)["efficiency against one node"] == "unknown"
    some = "gpu-memory-utilization, max-model-len, speculative-config.method and 1 more"
    assert page.words.count(some) == 2  # at the efficiency, and at the plot of nodes
    assert "1,103,941" in page.words
    assert "only in the table" in page.words


def test_the_gateway_alone_is_no_other_configuration() -> None:
    shape = an_asked().shape.model_copy(update={"routing": "inference-gateway"})
    assert article.published(an_asked(shape=shape)).unlike == ()


def test_a_price_with_nothing_missing_does_not_say_at_least() -> None:
    asked = an_asked(repeats=1)
    assert asked.cost is not None
    known = an_asked(repeats=1, cost=asked.cost.model_copy(update={"at_least": False}))
    assert "a million tokens" in tiles(page_of(a_measurement(known, collected=False)))


def test_another_workload_is_told_why_nothing_published_stands_beside_it() -> None:
    page = page_of(a_measurement(an_asked(repeats=1, workload="vllm-1024-512"), collected=False))
    assert "vllm-1024-512" in page.words
    assert "1,103,941" not in page.words
    assert "11.6 s" not in page.words
    assert tiles(page)["efficiency against one node"] == "unknown"


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("model", "Qwen/Qwen3.5-397B-A17B-NVFP4", "Qwen/Qwen3.5-397B-A17B-NVFP4"),
        ("machine_type", "a3-ultragpu-8g", "a3-ultragpu-8g"),
        ("gpus_per_replica", 4, "4"),
    ],
)
def test_other_models_and_machines_have_no_published_rows(field: str, value: object, said: str) -> None:
    shape = an_asked().shape.model_copy(update={field: value})
    found = article.published(an_asked(shape=shape))
    assert said in found.why_not
    assert not found.rows
    assert found.latency is found.one_node is None


def test_efficiency_at_another_load_is_unknown() -> None:
    page = page_of(a_measurement(an_asked(repeats=1, in_flight_per_node=(500,)), collected=False))
    assert tiles(page)["efficiency against one node"] == "unknown"
    assert "2,000 in flight" in next(one.more for one in page.numbers if "single node" in one.more)


def test_bare_results_say_what_was_not_collected_and_how_it_is_had() -> None:
    page = page_of(a_bare_measurement())
    for key in ("not_asked", "no_limits", "no_witness", "no_metrics", "no_gpus"):
        assert plain(TEXTS[key]) in page.words, key
    assert interval(a_bare_measurement().points[0].total_tokens_per_s) in page.words
    assert "unknown stack" in page.all("h3")[0].words
    assert not {"a node", "a million tokens", "efficiency against one node"} & set(tiles(page))


def test_what_is_there_is_not_called_missing(whole: Report) -> None:
    assert not [key for key, text in TEXTS.items() if key != "mfu" and plain(text) in whole.words]
    assert plain(TEXTS["mfu"]) in whole.words


def test_a_measurement_without_price_limits_or_mfu_says_so() -> None:
    measurement = a_measurement(an_asked(slo=None, cost=None, repeats=1, replicas=2))
    run = measurement.runs[0]
    assert run.server is not None
    engines = tuple(one.model_copy(update={"tflops_mean": None}) for one in run.server.engines)
    gone = run.model_copy(update={"server": run.server.model_copy(update={"engines": engines}), "gpus": None})
    page = page_of(measurement.model_copy(update={"runs": (gone,)}))
    for key in ("no_cost", "no_limits", "no_mfu", "no_gpus"):
        assert plain(TEXTS[key]) in page.words, key
    assert "$" not in page.words


def test_a_run_that_never_was_steady_has_no_rate_to_stand_for() -> None:
    measurement = a_measurement(an_asked(repeats=1), collected=False)
    run = measurement.runs[0].model_copy(update={"steady": None, "steady_why": "clients never were all at work"})
    point = measurement.points[0].model_copy(update={"total_tokens_per_s": estimate([1.0])})
    page = page_of(measurement.model_copy(update={"runs": (run,), "points": (point,)}))
    assert tiles(page)["total tokens a second"] == "none"
    name, *figures = page.cells("windows-table")[1]
    assert run.steady_why in name
    assert figures == ["–"] * 4


@pytest.mark.parametrize(
    ("common", "said"), [(True, "common window"), (False, "whole run")], ids=["common window", "whole run"]
)
def test_what_was_read_over_another_window_does_not_say_steady(common: bool, said: str) -> None:
    measurement = a_measurement(an_asked(replicas=1, repeats=2))
    never = {
        "steady": None,
        "in_flight_mean_steady": None,
        "steady_why": "prompts ran out",
        **({} if common else {"common": None}),
    }
    runs = tuple(run.model_copy(update=never) for run in measurement.runs)
    page = page_of(measurement.model_copy(update={"runs": runs}))
    after = page.words[page.words.index("Shown is repeat") :]
    after = after[: after.index("What was measured")]
    # The plot of engines, its caption, their table, the GPUs' table and their energy.
    assert after.count(said) >= 5
    assert "nearest to the mean" not in after
    assert "steady window" not in after.replace("no steady window", "")


def test_every_quantity_of_a_gpu_has_a_name_and_a_unit() -> None:
    measurement = a_measurement(an_asked(replicas=1, repeats=1))
    run = measurement.runs[0]
    assert run.gpus is not None
    values = {name: 0.5 if name.endswith("_share") else 1_830.0 for name in set(_DCGM.values())}
    readings = tuple(GpuReading(name=name, mean=value, peak=value, gpus=8) for name, value in values.items())
    gpus = run.gpus.model_copy(update={"readings": readings})
    page = page_of(measurement.model_copy(update={"runs": (run.model_copy(update={"gpus": gpus}),)}))
    rows = page.cells("gpus-table")[1:]
    assert len(rows) == len(values)
    for row in rows:
        assert row[0][0].isupper(), row
        assert re.fullmatch(r"50.0 %|1,830 (W|%|°C|MHz|B/s)", row[1]), row


def test_a_sweep_has_every_load_with_its_interval() -> None:
    sweep = a_sweep()
    page = page_of(sweep)
    rows = page.cells("points-table")[1:]
    assert [row[0] for row in rows] == ["1,000", "2,000", "4,000", "8,000"]
    for row, point in zip(rows, sweep.points, strict=True):
        one = point.total_tokens_per_s
        assert one.low is not None
        assert one.high is not None
        assert row[1] == f"{format_number(one.mean)} {format_number(one.low)} to {format_number(one.high)}"
    assert len(page.cells("runs-table")) == 12 + 1


def test_a_load_that_never_was_steady_is_told_apart_from_the_others() -> None:
    sweep = a_measurement(an_asked(replicas=1, in_flight_per_node=(500, 1_000, 2_000), repeats=1), collected=False)
    words = page_of(sweep).words
    assert "the fastest of 3 loads" in words
    assert "has no mark" not in words
    last = sweep.points[-1].point
    runs = tuple(run.model_copy(update={"steady": None}) if run.point == last else run for run in sweep.runs)
    words = page_of(sweep.model_copy(update={"runs": runs})).words
    assert "fastest of 2 loads" in words
    assert "has no mark" in words


def test_what_was_excluded_and_every_remark_is_named() -> None:
    measurement = a_measurement(
        an_asked(repeats=1),
        collected=False,
        excluded=(Excluded(file="point-00-repeat-0/client-003.json", why="damaged"),),
        remarks=("A remark about `merge`.",),
    )
    words = page_of(measurement).words
    assert "point-00-repeat-0/client-003.json: damaged" in words
    assert "A remark about merge." in words
    assert "Nothing was left out." not in words


def test_failed_requests_are_counted_by_kind_over_all_runs() -> None:
    measurement = a_measurement(an_asked(repeats=2), collected=False)
    errors = (ErrorKind(kind="http 503", count=3, example="upstream connect error"),)
    runs = tuple(run.model_copy(update={"failed": 3, "errors": errors}) for run in measurement.runs)
    page = page_of(measurement.model_copy(update={"runs": runs}))
    assert page.cells("errors-table")[1] == ["http 503", "6", "upstream connect error"]
    assert tiles(page)["failed requests"] == "6"


@pytest.mark.parametrize(
    ("found", "mark", "said"),
    [
        (
            (compared("total tok/s", "regressed", -0.104), compared("TPOT p50, ms", "regressed", 0.2)),
            "✗",
            "total tok/s −10.4 %; TPOT p50, ms +20.0 %",
        ),
        (
            tuple(compared(f"quantity {n}", "regressed", -0.1) for n in range(5)),
            "✗",
            "quantity 0 −10.0 %; quantity 1 −10.0 %; quantity 2 −10.0 % and 2 more",
        ),
        ((compared("total tok/s", "not comparable", -0.1),), "✗", "a reason"),
        ((compared("total tok/s", "improved", 0.1), compared("x", "not comparable", 0.1)), "✓", "bench-1"),
    ],
)
def test_a_certified_measurement_that_is_worse_than_its_baseline_says_so_in_the_verdict(
    found: tuple[Comparison, ...], mark: str, said: str
) -> None:
    judged = a_judged(a_measurement(an_asked(repeats=1), collected=False)).model_copy(update={"comparisons": found})
    page = Report(judged)
    against = next(one for one in page.all("p") if "bench-1" in one.words)
    assert page.elements.index(against) < page.elements.index(page.all("h4")[0])
    assert against.words.startswith(mark)
    assert "bench-1" in against.words
    assert said in against.words


def test_what_cannot_be_compared_has_neither_a_change_nor_no_noise() -> None:
    nothing = estimate([1.0]).model_copy(update={"mean": 0.0, "repeats": 0})
    rows = (
        compared("total tok/s", "not comparable", -0.1, noise_share=0.0),
        compared("output tok/s", "not comparable", 0.0, noise_share=0.0, before=nothing),
    )
    judged = a_judged(a_measurement(an_asked(repeats=1), collected=False)).model_copy(update={"comparisons": rows})
    cells = Report(judged).cells("baseline-table")[1:]
    assert [row[1:5] for row in cells] == [["100", "90.5", "–", "–"], ["–", "90.5", "–", "–"]]


def again(asked: Asked) -> list[str]:
    return [one.words for one in page_of(a_measurement(asked, collected=False)).all("pre")][-3:]


def test_commands_and_settings_measure_it_again() -> None:
    settings, command, same = again(
        an_asked(stack="my stack", in_flight_per_node=(500, 2_000), repeats=1, slo=AskedSlo(ttft_ms=500))
    )
    assert command == "fleet bench run --stack 'my stack'"
    assert same == "fleet bench report bench/one"
    found = Benchmark.model_validate_json(json.dumps(yaml.safe_load(settings)["vllm-fleet:benchmark"]))
    assert found.enabled
    assert not found.run_on_update  # `fleet bench run` starts it; `pulumi up` would measure, and cost, a second time
    assert found.workload == "article"
    assert found.concurrency == (500, 2_000)
    assert found.repeats == 1
    assert found.connections_per_client == 1_000
    assert found.prompts_per_client == 4_000
    assert found.slo is not None
    assert found.slo.ttft_ms == 500


@pytest.mark.parametrize("kind", ["sharegpt", "trace"])
def test_settings_of_a_workload_from_a_file_ask_for_the_file(kind: Literal["sharegpt", "trace"]) -> None:
    workload = an_asked().workload.model_copy(update={"name": kind, "kind": kind})
    settings = again(an_asked(repeats=1, workload=workload.name).model_copy(update={"workload": workload}))[0]
    assert yaml.safe_load(settings)["vllm-fleet:benchmark"]["dataset"]["sha256"] == "DIGEST"
    assert "dataset" not in again(an_asked(repeats=1))[0]
    digest = "ab" * 32
    known = workload.model_copy(update={"dataset": digest})
    asked = an_asked(repeats=1, workload=known.name).model_copy(update={"workload": known})
    settings = again(asked)[0]
    assert yaml.safe_load(settings)["vllm-fleet:benchmark"]["dataset"] == {
        "url": "gs://BUCKET/OBJECT",
        "sha256": digest,
    }
    assert ["file, by its SHA-256", digest] in page_of(a_measurement(asked, collected=False)).cells("load-table")


def test_clients_follow_the_load_that_had_most_of_them() -> None:
    points = (AskedPoint(connections=1_000, clients=4), AskedPoint(connections=6_000, clients=24))
    settings = again(an_asked(replicas=2, repeats=1, points=points, in_flight_per_node=(500, 3_000)))[0]
    assert "  connectionsPerClient: 250\n" in settings


def test_an_uncertainty_far_below_a_tick_is_not_told_to_the_nanosecond() -> None:
    run = a_measurement(an_asked(repeats=1), collected=False).runs[0]
    for off, said in ((0.0, "0.01"), (3.51e-10, "0.01"), (0.0004, "0.4"), (0.000012, "0.012")):
        words = format_clocks(run.model_copy(update={"clock_uncertainty_s": off}))
        assert words.endswith(f"{'less than ' if said == '0.01' else ''}{said} ms"), words


def test_bare_results_have_no_stack_to_measure_again() -> None:
    page = page_of(a_bare_measurement())
    assert [one.words for one in page.all("pre")][-1] == "fleet bench report bench/one"
    assert "fleet bench run --stack" not in "".join(one.words for one in page.all("pre"))


def test_words_from_outside_cannot_break_out() -> None:
    asked = an_asked(
        repeats=1,
        replicas=1,
        stack=HOSTILE,
        name=HOSTILE,
        profile=HOSTILE,
        image=HOSTILE,
        shape=an_asked().shape.model_copy(update={"flags": {HOSTILE: HOSTILE}, "env": {HOSTILE: HOSTILE}}),
    )
    measurement = a_measurement(asked, excluded=(Excluded(file=HOSTILE, why=HOSTILE),), remarks=(HOSTILE,))
    run = measurement.runs[0]
    assert run.server is not None
    engine = run.server.engines[0].model_copy(update={"server": HOSTILE, "engine": HOSTILE})
    run = run.model_copy(
        update={
            "errors": (ErrorKind(kind=HOSTILE, count=1, example=HOSTILE),),
            "steady_why": HOSTILE,
            "clients": tuple(one.model_copy(update={"node": HOSTILE}) for one in run.clients),
            "server": run.server.model_copy(
                update={"engines": (engine, *run.server.engines[1:]), "cache_config": {"num_gpu_blocks": HOSTILE}}
            ),
        }
    )
    certificate = a_certificate(failed=("errors",))
    checks = tuple(
        one.model_copy(update={"found": HOSTILE, "title": HOSTILE, "why": HOSTILE, "allowed": HOSTILE})
        for one in certificate.checks
    )
    judged = a_judged(
        measurement.model_copy(update={"runs": (run,)}),
        certificate.model_copy(update={"checks": checks, "headline": HOSTILE}),
    )
    page = Report(judged, recorded=HOSTILE, words=HOSTILE)
    text = page.text
    calm = Report(a_judged(a_measurement(an_asked(repeats=1, replicas=1)), a_certificate(failed=("errors",))))
    assert {one.tag for one in page.elements} <= {one.tag for one in calm.elements} | {"ul", "li"}
    assert not [one for one in page.elements if any(name.startswith("on") for name in one.attributes)]
    assert "<script" not in text
    assert page.words.count("<script>alert(1)</script>") > 10


def test_one_repeat_that_never_was_steady_takes_the_load_s_rate_away() -> None:
    measurement = a_measurement(an_asked(repeats=3), collected=False)
    runs = list(measurement.runs)
    why = "never steady: 95 % were reached late; that leaves 0.0 s before the load falls: give each client more prompts"
    runs[1] = runs[1].model_copy(update={"steady": None, "steady_why": why})
    page = page_of(measurement.model_copy(update={"runs": tuple(runs)}))
    assert tiles(page)["total tokens a second"] == "none"
    assert any(one.more.startswith("repeat 2 ") for one in page.numbers)
    assert "a million tokens, at least" not in tiles(page)


def test_the_ledger_s_entry_is_on_the_page_as_the_ledger_gets_it() -> None:
    measurement = sound()
    text, words = entry(shown(measurement), Path("a folder"))
    assert text is not None
    recorded = entry_of(
        measurement,
        results=digest_of_all(Path("a folder")),
        id_="spot-2-nodes-2026-11-21",
        title="spot, 2 nodes, vLLM 0.18.0",
    )
    assert text == as_yaml(recorded)
    assert words.startswith(
        "`fleet bench record 'a folder' --id spot-2-nodes-2026-11-21 --title 'spot, 2 nodes, vLLM 0.18.0'` prints this entry"
    )
    assert text.rstrip() in [one.words for one in Report(a_judged(measurement), recorded=text, words=words).all("pre")]


def test_what_the_ledger_refuses_is_told_why() -> None:
    text, words = entry(shown(a_bare_measurement()), SOURCE)
    assert (text, "`run.json`" in words) == (None, True)
    uncertified = a_measurement(an_asked(repeats=1))
    text, words = entry(shown(uncertified), SOURCE)
    assert (text, certify(uncertified).headline in words) == (None, True)


def test_of_a_sweep_the_shown_load_is_recorded() -> None:
    sweep = a_measurement(an_asked(replicas=2, in_flight_per_node=(1_000, 2_000)))
    text, words = entry(shown(sweep), SOURCE)
    assert text is not None
    assert "in_flight: 4000\n" in text
    assert " --point 1`" in words


def test_a_measurement_of_next_to_nothing_is_reported_all_the_same() -> None:
    measurement = a_measurement(an_asked(replicas=1, repeats=1, in_flight_per_node=(1,)))
    run, point = measurement.runs[0], measurement.points[0]
    assert run.server is not None
    zero = run.latencies.ttft.model_copy(
        update={
            **dict.fromkeys(("mean", "std", "min", "p10", "p50", "p90", "p95", "p99", "p999", "max"), 0.0),
            "count": 1,
            "histogram": Histogram(edges=(0.0, 0.0), counts=(1,)),
        }
    )
    latencies = Latencies(ttft=zero, tpot=None, itl=None, e2e=zero)
    idle = tuple(
        one.model_copy(
            update=dict.fromkeys(
                (
                    "generation_tokens",
                    "running_mean",
                    "running_peak",
                    "waiting_mean",
                    "waiting_peak",
                    "kv_mean",
                    "kv_peak",
                ),
                0.0,
            )
        )
        for one in run.server.engines
    )
    moment = run.timeline.model_copy(
        update={"at": (0.0,), "total_tokens_per_s": (0.0,), "output_tokens_per_s": (0.0,), "in_flight": (0.0,)}
    )
    run = run.model_copy(
        update={
            "latencies": latencies,
            "steady": None,
            "common": None,
            "batches": None,
            "timeline": moment,
            "server": run.server.model_copy(update={"engines": idle}),
        }
    )
    nothing = measurement.model_copy(
        update={
            "runs": (run,),
            "points": (point.model_copy(update={"latencies": latencies, "usd_per_million_tokens": None}),),
        }
    )
    page = page_of(nothing)
    assert plain(TEXTS["no_chunks"]) in page.words
    assert tiles(page)["total tokens a second"] == "none"
    assert "nan" not in page.words.lower().split()
