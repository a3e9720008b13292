"""How clients' monotonic clocks are laid over each other, with and without witnesses."""

from __future__ import annotations

from pathlib import Path

import pytest

from fleet.bench.merge import MergeOptions, merge_folder
from tests.fleet.bench.merge.folders import RUN, client, copied, edit, sound, witness


def test_without_witnesses_the_dates_lay_several_nodes() -> None:
    exact, rough = merge_folder(sound()).runs[0], merge_folder(sound(with_witness=False)).runs[0]
    assert (rough.clock, rough.clock_uncertainty_s) == ("end date", 2.0)
    assert rough.whole.seconds == pytest.approx(exact.whole.seconds, abs=2.0)
    assert rough.whole.began == pytest.approx(exact.whole.began, abs=2.0)
    assert any("date" in remark for remark in merge_folder(sound(with_witness=False)).remarks)


def test_without_witnesses_one_nodes_clock_is_found_by_evidence() -> None:
    options = {"with_witness": False, "clients_per_pod": 4}
    one = merge_folder(sound(**options))
    exact = merge_folder(sound(clients_per_pod=4)).runs[0]
    assert one.runs[0].clock == "one node"
    assert one.runs[0].clock_uncertainty_s == exact.start_skew_s < 0.03
    assert one.runs[0].whole.seconds == pytest.approx(exact.whole.seconds, abs=1e-6)
    assert one.runs[0].steady is not None
    assert exact.steady is not None
    assert one.runs[0].steady.total_tokens_per_s == pytest.approx(exact.steady.total_tokens_per_s, rel=1e-6)
    assert any("one node" in remark for remark in one.remarks)


def test_dates_of_another_time_zone_are_laid_by_the_common_start(tmp_path: Path) -> None:
    folder = copied(tmp_path, with_witness=False)

    def later(content: dict[str, str]) -> None:
        day, time = content["date"].split("-")
        content["date"] = f"{day}-{(int(time[:2]) + 2) % 24:02d}{time[2:]}"

    for number in range(4):
        edit(client(folder, number), later)
    moved, before = merge_folder(folder).runs[0], merge_folder(sound(with_witness=False)).runs[0]
    assert moved.whole.began == pytest.approx(before.whole.began, abs=1e-6)
    assert moved.server is not None
    assert moved.server.generation_tokens > 0


def test_without_any_wall_clock_moments_begin_at_the_first_request(tmp_path: Path) -> None:
    folder = copied(tmp_path, with_witness=False)
    for number in range(4):
        edit(client(folder, number), lambda content: content.pop("started_at"))
    merged = merge_folder(folder)
    run = merged.runs[0]
    assert run.whole.began == pytest.approx(0.0, abs=1e-6)
    assert run.server is None
    assert run.gpus is None
    assert [remark.split("'")[0] for remark in merged.remarks[1:]] == ["the servers", "the GPUs"]
    for number in range(4):
        edit(client(folder, number), lambda content: content.pop("date"))
    blind = merge_folder(folder)
    assert blind.runs[0].clock_uncertainty_s > 1.0
    assert any("no date" in remark for remark in blind.remarks)


def test_a_client_without_a_witness_is_laid_by_its_nodes_other_one(tmp_path: Path) -> None:
    folder = copied(tmp_path)
    witness(folder, 1).unlink()
    guessed = merge_folder(folder)
    assert guessed.runs[0].clock == "witness"
    assert 0 < guessed.runs[0].clock_uncertainty_s < 2.0, "its date is to a second"
    assert any("client-001.json" in remark for remark in guessed.remarks)
    assert merge_folder(folder).runs[0].whole == merge_folder(sound()).runs[0].whole
    witness(folder, 0).unlink()  # now none of its node
    merged = merge_folder(folder)
    assert (merged.runs[0].clock, merged.runs[0].clock_uncertainty_s) == ("end date", 2.0)
    assert any(f"client-000.json, {RUN}/client-001.json" in remark for remark in merged.remarks)


def test_a_clock_that_moved_is_told_as_uncertainty_and_refused_beyond_a_second(tmp_path: Path) -> None:
    run = merge_folder(sound(clock_drift=0.2)).runs[0]
    assert run.clock_uncertainty_s == pytest.approx(0.2, abs=1e-6)
    folder = copied(tmp_path, clock_drift=-1.5)
    from fleet.bench.errors import BenchmarkError

    with pytest.raises(BenchmarkError, match=r"-1.500 s.*\[clock-drift\]"):
        merge_folder(folder)
    left = merge_folder(folder, MergeOptions(exclude=("reason:clock-drift",)))
    assert left.runs[0].clock == "end date"
