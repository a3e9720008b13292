"""Measurements of your own as figures: which stack shows them, and that nothing else changes for them."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from docs.generate import provenance
from facts import figures, ledger
from facts.figures import Match, match
from facts.ledger import LedgerError
from fleet.plan.model import calibration
from tests.facts.test_figures import ARTICLE, ARTICLE_FLAGS
from tests.fleet.plan.model.published import rows

FLAGS: Mapping[str, Any] = {
    **{name: value for name, value in ARTICLE_FLAGS.items() if name != "speculative-config"},
    "speculative-config.method": "mtp",
    "speculative-config.num_speculative_tokens": 1,
    "mamba-cache-mode": "align",
    "mamba-block-size": 8,
}
STACK = replace(ARTICLE, flags=FLAGS)
"""What the published record is equivalent to, with differences."""


def entry(shape: Mapping[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
    """An entry as `fleet bench record` prints it."""
    return {
        "title": "twelve Spot nodes",
        "date": "2026-11-21",
        "source": "own-measurement",
        "certificate": "certified",
        "measurement": "bench-1",
        "raw": "runs/bench-1 in the results bucket of stack spot",
        "results_sha256": "0" * 64,
        "replicas": 12,
        "routing": "cluster-ip",
        "in_flight": 24_000,
        "repeats": 3,
        "total_tokens_per_s": {"mean": 1_098_765, "low": 1_090_000, "high": 1_107_530},
        "output_tokens_per_s": {"mean": 366_111, "low": 363_000, "high": 369_222},
        "latencies_ms": {"ttft": {"p50": 5_612.3, "p99": 11_000.0}, "tpot": {"p50": 45.4, "p99": 73.0}},
        "shape": {
            "model": STACK.model,
            "engine_version": "0.18.0",
            "machine_type": "a4-highgpu-8g",
            "gpus_per_replica": 8,
            "workload": "article",
            "flags": dict(FLAGS),
            "env": dict(STACK.env),
            **(shape or {}),
        },
        **fields,
    }


Record = Callable[..., None]


@pytest.fixture
def record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Record]:
    """A ledger of its own, with these entries."""
    folder = tmp_path / "data"
    shutil.copytree(ledger.DATA_FOLDER, folder)
    monkeypatch.setattr(ledger, "DATA_FOLDER", folder)
    _forget()

    def write(**entries: Any) -> None:
        (folder / "measured.yaml").write_text(yaml.safe_dump({"figures": entries}, sort_keys=False))
        _forget()

    yield write
    monkeypatch.undo()
    _forget()


def _forget() -> None:
    for cached in (ledger.load, ledger.source, figures._rows, figures.measured_figures, figures._raw_shape):
        cached.cache_clear()


def _total(answer: Match) -> int | None:
    return answer.figure.total_tokens_per_s if answer.figure else None


def test_the_project_is_shipped_without_measurements() -> None:
    assert figures.measured_figures() == ()
    assert match(STACK).figure is figures.published("cluster_ip.nodes-12")


@pytest.mark.parametrize("text", ["figures: {}\n", "figures:\n", "{}\n"])
def test_an_empty_ledger_has_no_measurements(record: Record, text: str) -> None:
    record()
    (ledger.DATA_FOLDER / "measured.yaml").write_text(text)
    _forget()
    assert figures.measured_figures() == ()
    assert match(STACK).kind == "equivalent"


def test_an_exact_measurement_stands_before_an_equivalent_published_row_which_stays_named(record: Record) -> None:
    record(spot=entry())
    answer = match(STACK)
    figure = answer.figure
    assert figure is not None
    assert (answer.kind, answer.reason, answer.differences) == ("exact", "same configuration as the measured run", ())
    assert figure.id == "measured.spot"
    assert figure.label == "measured 2026-11-21, vLLM 0.18.0, certified"
    assert (figure.total_tokens_per_s, figure.output_tokens_per_s) == (1_098_765, 366_111)
    assert (figure.tpot_median_ms, figure.ttft_median_ms) == (45.4, 5_612.3)
    assert figure.also_published[0] == "1,103,941 (published, vLLM 0.18.0)"
    assert figure.source.title.startswith("own measurement")
    assert figure.source.date == "2026-11-21"
    assert "runs/bench-1 in the results bucket" in (figure.source.note or "")


def test_the_published_row_is_still_served_under_its_own_name(record: Record) -> None:
    before = (figures.published("cluster_ip.nodes-12"), figures.all_figures(), figures.published_nodes("cluster-ip"))
    record(spot=entry())
    assert (
        figures.published("cluster_ip.nodes-12"),
        figures.all_figures(),
        figures.published_nodes("cluster-ip"),
    ) == before
    with pytest.raises(LedgerError, match=r"measured\.spot is your measurement"):
        figures.published("measured.spot")


def test_the_model_is_not_fitted_to_measurements(record: Record) -> None:
    held_against, fitted = rows(), calibration.calibration()
    record(spot=entry())
    rows.cache_clear()
    calibration.calibration.cache_clear()
    assert rows() == held_against
    assert calibration.calibration() == fitted
    assert not any(row.id.startswith("measured.") for row in rows())


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"max-num-batched-tokens": 8192}, "max-num-batched-tokens (16384 measured, 8192 here)"),
        ({"kv-cache-dtype": "auto"}, "kv-cache-dtype (fp8_e4m3 measured, auto here)"),
    ],
)
def test_any_other_shape_does_not_show_it(record: Record, change: Mapping[str, Any], words: str) -> None:
    only = replace(STACK, replicas=3)
    record(spot=entry(replicas=3, in_flight=6_000))
    assert match(only).kind == "exact"
    answer = match(replace(only, flags={**FLAGS, **change}))
    assert answer.kind == "unproven"
    assert words in answer.reason
    assert match(replace(STACK, replicas=5)).figure is None
    assert match(replace(only, routing="inference-gateway")).figure is None


def test_a_measurement_that_needs_more_arguments_than_the_published_row_stays_behind_it(record: Record) -> None:
    exact = replace(
        STACK,
        engine_version="0.18.0",
        flags={k: v for k, v in FLAGS.items() if not k.startswith(("mamba", "max-num-seqs"))},
    )
    assert match(exact).kind == "exact"
    record(spot=entry())
    answer = match(exact)
    assert (answer.kind, _total(answer)) == ("exact", 1_103_941)


def test_an_equivalent_measurement_is_argued_like_a_published_one(record: Record) -> None:
    record(spot=entry({"flags": {**FLAGS, "mamba-block-size": None}}))
    answer = match(STACK)
    assert (answer.kind, answer.reason) == ("equivalent", "equivalent to the measured run: 1 difference, justified")
    assert str(answer.differences[0]) == "mamba-block-size (not set measured, 8 here)"
    assert _total(answer) == 1_098_765


def test_a_measurement_of_another_release_is_not_shown(record: Record) -> None:
    record(spot=entry({"engine_version": "0.18.1"}))
    assert _total(match(STACK)) == 1_103_941


def test_less_load_does_not_take_the_place_of_the_published_load(record: Record) -> None:
    light = entry(in_flight=1_200, total_tokens_per_s={"mean": 200_000, "low": 199_000, "high": 201_000})
    record(light=light)
    assert _total(match(STACK)) == 1_103_941
    record(light={**light, "replicas": 3})
    assert _total(match(replace(STACK, replicas=3))) == 200_000


def test_of_several_the_newest_of_each_load_counts_and_of_these_the_fastest(record: Record) -> None:
    def rate(mean: int) -> dict[str, int]:
        return {"mean": mean, "low": mean - 9, "high": mean + 9}

    record(
        newer=entry(date="2026-12-01", total_tokens_per_s=rate(1_090_000)),
        older=entry(date="2026-11-01", total_tokens_per_s=rate(1_200_000)),
        heavier=entry(in_flight=48_000, total_tokens_per_s=rate(1_080_000)),
    )
    assert _total(match(STACK)) == 1_090_000


def test_what_has_no_certificate_is_kept_but_never_shown(record: Record) -> None:
    record(bad=entry(certificate="not certified"))
    assert figures.measured_figures()[0].label.endswith("not certified")
    assert _total(match(STACK)) == 1_103_941


@pytest.mark.parametrize("broken", [{"shape": None}, {"total_tokens_per_s": 5}, {"date": None, "latencies_ms": {}}])
def test_an_entry_written_wrongly_is_named(record: Record, broken: dict[str, Any]) -> None:
    record(**{"by-hand": {**entry(), **broken}})
    with pytest.raises(LedgerError, match=r"measured.yaml, by-hand: .* is missing or of the wrong form"):
        match(STACK)


def test_a_figure_of_a_file_is_shown_for_that_file_alone(record: Record) -> None:
    stack = replace(STACK, workload="trace", dataset="5b41", replicas=7)  # no row is published for seven
    shape = {"workload": "trace"}
    record(spot=entry(shape, replicas=7, prompts={"kind": "trace", "dataset_sha256": "5b41"}))
    assert match(stack).kind == "exact"
    assert match(replace(stack, dataset="77e0")).reason == "unproven: differs in dataset (5b41 measured, 77e0 here)"
    assert match(replace(stack, dataset=None)).reason == "unproven: differs in dataset (5b41 measured, not set here)"
    record(spot=entry(shape, replicas=7, prompts={"kind": "trace"}))
    assert match(stack).reason == "unproven: differs in dataset (not stated measured, 5b41 here)"


@pytest.mark.parametrize(("text", "kind"), [("figures: [1]\n", "list"), ("figures: none yet\n", "str")])
def test_figures_that_are_no_entries_are_refused(record: Record, text: str, kind: str) -> None:
    record()
    (ledger.DATA_FOLDER / "measured.yaml").write_text(text)
    _forget()
    with pytest.raises(LedgerError, match=f"measured.yaml: `figures` must be a mapping by id, not a {kind}"):
        match(STACK)


def test_the_page_of_provenance_lists_them(record: Record) -> None:
    record(spot=entry())
    assert "`measured.spot` twelve Spot nodes | 12 | 24,000 | 1,098,765 (1,090,000 to 1,107,530)" in provenance.page()
