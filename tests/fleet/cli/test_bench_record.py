"""`fleet bench record`, from made-up raw results to a preview that shows them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest
import yaml

from tests.fleet.cli.command import ROOT, fleet

pytest.importorskip("numpy")


def _results(folder: Path, **options: Any) -> Path:
    from tests.fleet.bench.made_up.results import make_measurement

    sizes: dict[str, Any] = {
        "clients": 4,
        "requests_per_client": 200,
        "repeats": 3,
        "with_gpu": False,
        "with_texts": False,
    }
    return make_measurement(folder, **{**sizes, **options})


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _results(tmp_path_factory.mktemp("sound") / "bench")


def _record(folder: Path, *more: str) -> CompletedProcess[str]:
    return fleet("bench", "record", str(folder), "--id", "two-nodes", "--title", "two nodes", *more)


def test_a_certified_measurement_is_an_entry_to_paste(sound: Path) -> None:
    done = _record(sound)
    assert done.returncode == 0, done.stderr
    assert done.stderr.startswith("Certified: 2")
    assert done.stdout.startswith("  two-nodes:\n")
    fields = yaml.safe_load(f"figures:\n{done.stdout}")["figures"]["two-nodes"]
    assert (fields["certificate"], fields["replicas"], fields["repeats"]) == ("certified", 2, 3)


def _refused(folder: Path, *more: str) -> str:
    done = _record(folder, *more)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("fleet: ")
    assert "Traceback" not in done.stderr
    return done.stderr


@pytest.mark.slow
def test_a_sweep_needs_its_load_named(tmp_path: Path) -> None:
    sweep = _results(tmp_path / "sweep", points=2, requests_per_client=400)
    assert "--point" in _refused(sweep)
    done = _record(sweep, "--point", "1", "--raw", "gs://kept/runs/x")
    assert done.returncode == 0, done.stderr
    fields = yaml.safe_load(done.stdout)["two-nodes"]
    assert (fields["in_flight"], fields["raw"]) == (64, "gs://kept/runs/x")


def _project(folder: Path) -> Path:
    """A copy of the program, whose ledger may be written."""
    tools = shutil.ignore_patterns(".*", "tests", "docs", "__pycache__", "node_modules", "rehearse", "build", "dist")
    shutil.copytree(ROOT, folder, ignore=tools)
    shutil.copytree(ROOT / "policy", folder / "policy", dirs_exist_ok=True)
    return folder


@pytest.mark.slow
def test_a_stack_shows_what_was_measured_on_its_shape(tmp_path: Path) -> None:
    from fleet.bench.folder import AskedShape
    from settings.derived.figures import serving_shape
    from settings.load import parse
    from settings.stack_file import read

    copy = _project(tmp_path / "project")
    shape = serving_shape(parse("dev", dict(read(copy, "dev").config)))
    results = _results(
        tmp_path / "bench",
        clients=2,
        connections_per_client=1_000,
        requests_per_client=6_000,
        servers=1,
        engines_per_server=8,
        chunk_seconds=0.6,
        ttft_seconds=2.0,
    )
    asked = json.loads((results / "run.json").read_text())
    asked["shape"] = {name: getattr(shape, name) for name in AskedShape.model_fields}
    (results / "run.json").write_text(json.dumps(asked))

    before = fleet("preview", "--stack", "dev", cwd=copy, PYTHONPATH=str(copy))
    assert "95,317 tok/s total" in before.stdout, before.stderr
    record = ("bench", "record", str(results), "--id", "dev", "--title", "one node of dev")
    done = fleet(*record, cwd=copy, PYTHONPATH=str(copy))
    assert done.returncode == 0, done.stderr
    assert "python -m docs.generate.provenance" in done.stderr
    ledger = copy / "facts/data/measured.yaml"
    ledger.write_text(ledger.read_text().replace("figures: {}\n", f"figures:\n{done.stdout}"))
    again = fleet(*record, cwd=copy, PYTHONPATH=str(copy))
    assert (again.returncode, again.stdout) == (2, "")
    assert "--id dev: " in again.stderr
    total = yaml.safe_load(ledger.read_text())["figures"]["dev"]["total_tokens_per_s"]["mean"]

    after = fleet("preview", "--stack", "dev", "--details", cwd=copy, PYTHONPATH=str(copy))
    assert f"{total:,} tok/s total" in after.stdout, after.stderr
    assert "measured 2026-05-28, vLLM 0.18.0, certified" in after.stdout
    assert "one node of dev: " in after.stdout
    assert "also published: 95,317 (published, vLLM 0.18.0)" in after.stdout
    assert "at the measured rate" in " ".join(after.stdout.split())
    other = fleet("preview", "--stack", "spot", cwd=copy, PYTHONPATH=str(copy))
    assert "1,103,941 tok/s total" in other.stdout, other.stderr
