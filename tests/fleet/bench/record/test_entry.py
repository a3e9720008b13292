"""What the ledger takes, and what it keeps of it."""

from __future__ import annotations

import re
from datetime import date
from typing import Any

import pytest
import yaml

from fleet.bench.certificate import certify
from fleet.bench.errors import BenchmarkError
from fleet.bench.measurement import Measurement, Run
from fleet.bench.record import as_yaml, entry_of
from tests.fleet.bench.certificate.sound import every_run, sound, with_client
from tests.fleet.bench.measurements import a_bare_measurement, a_measurement, an_asked
from tests.support.rows import each_row


def _entry(measurement: Measurement | None = None, **options: Any) -> Any:
    return entry_of(measurement or sound(), results="0" * 64, id_="two-nodes", title="two nodes", **options).fields


def test_an_entry_says_what_was_measured_on_what() -> None:
    fields = _entry()
    assert fields["date"] == date(2026, 11, 21)
    assert (fields["certificate"], fields["source"]) == ("certified", "own-measurement")
    assert fields["measurement"] == "bench-20261121-a1b2c3d4"
    assert fields["raw"].startswith("runs/bench-20261121-a1b2c3d4 ")
    assert fields["raw"].endswith(" spot")
    assert (fields["replicas"], fields["routing"], fields["in_flight"]) == (2, "cluster-ip", 4_000)
    assert (fields["clients"], fields["repeats"]) == (4, 3)
    point = sound().points[0]
    total = point.total_tokens_per_s
    assert fields["total_tokens_per_s"] == {
        "mean": round(total.mean),
        "low": round(total.low or 0),
        "high": round(total.high or 0),
    }
    assert fields["output_tokens_per_s"]["mean"] == round(point.output_tokens_per_s.mean)
    assert fields["latencies_ms"]["ttft"]["p99"] == round(point.latencies.ttft.p99, 1)
    assert set(fields["latencies_ms"]) == {"ttft", "tpot", "itl", "e2e"}
    assert fields["shape"]["engine_version"] == "0.18.0"
    assert fields["shape"]["flags"]["max-model-len"] == 2560
    assert fields["servers"]["acceptance_percent"] == 89.7
    assert fields["servers"]["watts_per_gpu_mean"] == 672


def test_an_entry_s_text_says_what_its_fields_say() -> None:
    entry = entry_of(sound(), results="0" * 64, id_="two-nodes", title="two nodes: 'quoted', # no comment")
    ledger = yaml.safe_load(f"figures:\n{as_yaml(entry)}")
    assert ledger == {"figures": {"two-nodes": entry.fields}}


def test_an_entry_names_the_file_that_its_requests_came_from() -> None:
    asked = sound().asked
    assert asked is not None
    assert "dataset_sha256" not in _entry()["prompts"]
    workload = asked.workload.model_copy(update={"kind": "trace", "dataset": "5b41" * 16})
    of_a_file = sound().model_copy(update={"asked": asked.model_copy(update={"workload": workload})})
    assert _entry(of_a_file)["prompts"]["dataset_sha256"] == "5b41" * 16


@pytest.mark.parametrize("raw", ["https://example.org/results.tar", "gs://kept", "https://user@[::1]:8443/a?b=c#d"])
def test_where_the_raw_results_are_can_be_said(raw: str) -> None:
    assert _entry(raw=raw)["raw"] == raw


@each_row(
    "raw", ["not a url", "", "runs/x", "/home/me/results", "file:///tmp/x", "https://", "gs:///x", "gs://a b", "gs://a\n", "x gs://a"]
)  # fmt: skip
def test_what_is_no_url_is_no_place_of_raw_results(raw: str) -> None:
    with pytest.raises(BenchmarkError, match=r"--raw .*https:// or gs://"):
        _entry(raw=raw)


def test_an_uncertified_measurement_is_refused_with_its_reason() -> None:
    busy = with_client(cpu_share_mean=0.99)
    with pytest.raises(BenchmarkError, match="Checks: client-cpu;") as caught:
        _entry(busy)
    assert certify(busy).headline in str(caught.value)


def test_bare_results_are_refused_with_the_command_that_gives_more() -> None:
    with pytest.raises(BenchmarkError, match="`fleet bench run --stack STACK`"):
        _entry(a_bare_measurement())


def _sweep() -> Measurement:
    made = a_measurement(an_asked(replicas=2, in_flight_per_node=(500, 2_000)))
    return every_run(made, _alike)


def _alike(run: Run) -> Run:
    assert run.server is not None
    tokens = run.whole.output_tokens_per_s * run.whole.seconds
    return run.model_copy(update={"server": run.server.model_copy(update={"generation_tokens": tokens})})


def test_a_sweep_needs_a_load_and_each_load_stands_for_itself() -> None:
    with pytest.raises(BenchmarkError, match=r"--point .*0 \(1,000 in flight\), 1 \(4,000 in flight\)"):
        _entry(_sweep())
    assert _entry(_sweep(), point=0)["in_flight"] == 1_000
    broken = every_run(_sweep(), lambda run: run.model_copy(update={"start_skew_s": 5.0}) if run.point else run)
    assert _entry(broken, point=0)["in_flight"] == 1_000
    with pytest.raises(BenchmarkError, match="Checks: start"):
        _entry(broken, point=1)
    with pytest.raises(BenchmarkError, match="--point 2 "):
        _entry(_sweep(), point=2)


@each_row("id_", ["", "Two", "two nodes", "two.nodes", "-two", "two--nodes", "zwölf", "a\n"])
def test_an_id_is_plain(id_: str) -> None:
    with pytest.raises(BenchmarkError, match=f"--id {re.escape(repr(id_))} "):
        entry_of(sound(), results="0" * 64, id_=id_, title="two nodes")


@pytest.mark.parametrize("title", ["", "  ", "two\nlines"])
def test_a_title_is_one_line(title: str) -> None:
    with pytest.raises(BenchmarkError, match="--title "):
        entry_of(sound(), results="0" * 64, id_="two-nodes", title=title)


def _created(text: str) -> Measurement:
    asked = sound().asked
    assert asked is not None
    return sound().model_copy(update={"asked": asked.model_copy(update={"created": text})})


def _since_the_first_request(run: Run) -> Run:
    """Moments as they are where no client's wall clock is known."""
    assert run.steady is not None
    first = run.whole.began
    moved = {"began": run.steady.began - first, "ended": run.steady.ended - first}
    whole = run.whole.model_copy(update={"began": 0.0, "ended": run.whole.seconds})
    return run.model_copy(update={"whole": whole, "steady": run.steady.model_copy(update=moved), "clock": "one node"})


@pytest.mark.parametrize(
    ("created", "day"),
    [
        ("2026-11-21T23:30:00-02:00", date(2026, 11, 22)),
        ("2026-11-21T23:30:00", date(2026, 11, 21)),
        ("", date(2026, 11, 18)),
    ],
)
def test_the_day_is_utcs(created: str, day: date) -> None:
    assert _entry(_created(created))["date"] == day


def test_without_any_clock_the_date_must_be_written() -> None:
    with pytest.raises(BenchmarkError, match="created"):
        _entry(every_run(_created(""), _since_the_first_request))
