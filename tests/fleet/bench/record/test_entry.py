"""What the ledger takes, and what it keeps of it."""

from __future__ import annotations

import re
from datetime import date
from typing import Any

import pytest
import yaml

from fleet.bench.certificate import certify
from fleet.bench.errors import BenchmarkError
from fleet.bench.measurement import Measurement
from fleet.bench.record import as_yaml, entry_of
from tests.fleet.bench.certificate.sound import sound, with_client
from tests.support.rows import each_row


def _entry(measurement: Measurement | None = None, **options: Any) -> Any:
    return entry_of(measurement or sound(), results="0" * 64, id_="two-nodes", title="two nodes", **options).fields


def test_an_entry_says_what_was_measured_on_what() -> None:
    fields = _entry()
    assert fields["date"] == date(2026, 5, 28)
    assert (fields["certificate"], fields["source"]) == ("certified", "own-measurement")
    assert fields["measurement"] == "bench-00000000"
    assert fields["raw"].startswith("runs/bench-00000000 ")
    assert fields["raw"].endswith(" dev")
    assert (fields["replicas"], fields["routing"], fields["in_flight"]) == (2, "cluster-ip", 32)
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
    assert fields["shape"]["flags"]["max-num-seqs"] == 8192
    assert fields["servers"]["acceptance_percent"] == 90.0
    assert fields["servers"]["watts_per_gpu_mean"] == 721


def test_an_entry_s_text_says_what_its_fields_say() -> None:
    entry = entry_of(sound(), results="0" * 64, id_="two-nodes", title="two nodes: 'quoted', # no comment")
    ledger = yaml.safe_load(f"figures:\n{as_yaml(entry)}")
    assert ledger == {"figures": {"two-nodes": entry.fields}}


def test_an_entry_names_the_file_that_its_requests_came_from() -> None:
    asked = sound().asked
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


def test_a_sweep_needs_a_load_and_each_load_stands_for_itself() -> None:
    (point,) = sound().points
    runs = (*sound().runs, *(run.model_copy(update={"point": 1, "failed": 900}) for run in sound().runs))
    sweep = sound().model_copy(
        update={"runs": runs, "points": (point, point.model_copy(update={"point": 1, "connections": 64}))}
    )
    with pytest.raises(BenchmarkError, match=r"--point .*0 \(32 in flight\), 1 \(64 in flight\)"):
        _entry(sweep)
    assert _entry(sweep, point=0)["in_flight"] == 32
    with pytest.raises(BenchmarkError, match="Checks: failures"):
        _entry(sweep, point=1)
    with pytest.raises(BenchmarkError, match="--point 2 "):
        _entry(sweep, point=2)


@each_row("id_", ["", "Two", "two nodes", "two.nodes", "-two", "two--nodes", "zwölf", "a\n"])
def test_an_id_is_plain(id_: str) -> None:
    with pytest.raises(BenchmarkError, match=f"--id {re.escape(repr(id_))} "):
        entry_of(sound(), results="0" * 64, id_=id_, title="two nodes")


@pytest.mark.parametrize("title", ["", "  ", "two\nlines"])
def test_a_title_is_one_line(title: str) -> None:
    with pytest.raises(BenchmarkError, match="--title "):
        entry_of(sound(), results="0" * 64, id_="two-nodes", title=title)
