"""The made-up folders that tests stand on: always the same bytes, and of the schema that pods write."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from fleet.bench.folder import METRICS_FILE, Asked, DcgmSeries, MetricsSample, PodCourse, Witness
from tests.fleet.bench.made_up.results import make_measurement
from tests.fleet.bench.merge.folders import RUN, sound


def test_the_same_seed_gives_the_same_bytes(tmp_path: Path) -> None:
    one, other = (
        make_measurement(tmp_path / name, clients=2, requests_per_client=20, repeats=2) for name in ("a", "b")
    )
    files = sorted(path.relative_to(one) for path in one.rglob("*") if path.is_file())
    assert len(files) > 15
    assert all((one / path).read_bytes() == (other / path).read_bytes() for path in files)
    third = make_measurement(tmp_path / "c", clients=2, requests_per_client=20, repeats=2, seed=1)
    assert (third / RUN / "client-000.json").read_bytes() != (one / RUN / "client-000.json").read_bytes()


def test_every_file_is_of_its_schema() -> None:
    folder = sound(fail_share=0.1, failed_scrape_share=0.2, engine_restart=True)
    Asked.model_validate_json((folder / "run.json").read_bytes())
    DcgmSeries.model_validate_json((folder / "dcgm.json").read_bytes())
    for path in (folder / RUN).glob("*.witness.json"):
        Witness.model_validate_json(path.read_bytes())
    for path in (folder / RUN).glob("pod-*.json"):
        PodCourse.model_validate_json(path.read_bytes())
    samples = [
        MetricsSample.model_validate_json(line)
        for line in gzip.decompress((folder / RUN / METRICS_FILE).read_bytes()).splitlines()
    ]
    assert any(sample.error for sample in samples)


def test_an_unknown_fault_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="no_such_fault"):
        make_measurement(tmp_path, no_such_fault=1)
    with pytest.raises(ValueError, match="holds one run"):
        make_measurement(tmp_path, repeats=2, with_run_file=False)
