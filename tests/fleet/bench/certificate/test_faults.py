"""Made-up raw results, one fault of each kind, merged and certified: it is put down to whose it is. test_findings has every fault."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fleet.bench.certificate import certify, limits
from fleet.bench.certificate.certify import OPENINGS
from fleet.bench.measurement import Certificate
from fleet.bench.merge import MergeOptions, merge_folder
from tests.fleet.bench.made_up.results import make_measurement

pytestmark = pytest.mark.slow


def _certificate(folder: Path, **faults: Any) -> Certificate:
    made = make_measurement(
        folder, clients=4, requests_per_client=300, repeats=3, with_gpu=False, with_texts=False, **faults
    )
    return certify(merge_folder(made, MergeOptions(allow_missing="missing_client" in faults)))


def test_sound_results_are_certified(tmp_path: Path) -> None:
    certificate = _certificate(tmp_path)
    assert certificate.verdict == "certified", certificate.headline
    assert {check.verdict for check in certificate.checks} == {"passed"}


def test_slow_servers_are_certified_as_slow(tmp_path: Path) -> None:
    certificate = _certificate(tmp_path, ttft_seconds=1.5, chunk_seconds=0.2)
    assert certificate.verdict == "certified", certificate.headline


@pytest.mark.parametrize(
    ("faults", "ids", "blames"),
    [
        ({"saturated_client": 1}, {"client-cpu", "event-loop", "client-balance"}, "client"),
        ({"open_files_limit": 12}, {"open-files"}, "client"),
        ({"starved_engine": 1, "choked_engine": 2}, {"engine-balance"}, "server"),
        ({"slow_client": 1}, {"client-balance"}, "run"),
        ({"skew_seconds": 2.0}, {"start"}, "run"),
        ({"failed_scrape_share": 0.2}, {"scrapes"}, "data"),
        ({"missing_client": 1}, {"complete", "foreign-traffic"}, "data"),
    ],
)
def test_a_fault_is_found_and_put_down_to_whose_it_is(
    tmp_path: Path, faults: dict[str, Any], ids: set[str], blames: str
) -> None:
    certificate = _certificate(tmp_path, **faults)
    failed = [check for check in certificate.checks if check.verdict == "failed"]
    assert {check.id for check in failed} == ids, certificate.reason
    assert blames in {check.blames for check in failed}
    opening = OPENINGS["limit" if blames == "client" else blames]
    assert certificate.reason.startswith(opening)


@pytest.mark.parametrize("seed", range(3))
def test_the_articles_lengths_at_five_requests_a_connection_hold_the_limits_of_drift_and_mix(
    tmp_path: Path, seed: int
) -> None:
    made = make_measurement(
        tmp_path,
        clients=2,
        connections_per_client=400,
        requests_per_client=2_000,
        repeats=1,
        servers=1,
        engines_per_server=8,
        output_tokens=(256, 512),
        chunk_seconds=0.087,
        ttft_seconds=6.0,
        with_gpu=False,
        with_texts=False,
        seed=seed,
    )
    measurement = merge_folder(made, MergeOptions())
    verdicts = {check.id: check for check in certify(measurement).checks}
    assert {verdicts[id_].verdict for id_ in ("steady", "drift", "mix")} == {"passed"}
    batches = measurement.runs[0].batches
    assert batches is not None
    # The reason why total tok/s is not what drift is judged by.
    assert abs(batches.drift_share) > limits.DRIFT_SHARE
