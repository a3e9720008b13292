"""`fleet bench record`, from made-up raw results to a preview that shows them."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
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


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Path]:
    """An empty ledger of its own; the project's must stay as it is."""
    own = ROOT / "facts" / "data" / "measured.yaml"
    before = own.read_bytes()
    path = tmp_path / "ledger.yaml"
    path.write_text("# Mine.\nfigures: {}\n")
    yield path
    assert own.read_bytes() == before


def _record(folder: Path, ledger: Path, *more: str) -> CompletedProcess[str]:
    return fleet(
        "bench", "record", str(folder), "--id", "two-nodes", "--title", "two nodes", "--ledger", str(ledger), *more
    )


def test_a_certified_measurement_goes_into_the_ledger(sound: Path, ledger: Path) -> None:
    done = _record(sound, ledger)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("Certified: 2")
    assert done.stdout.endswith(f"measured.two-nodes is in {ledger}\n")
    text = ledger.read_text()
    assert text.startswith("# Mine.\nfigures:\n  two-nodes:\n")
    fields = yaml.safe_load(text)["figures"]["two-nodes"]
    assert (fields["certificate"], fields["replicas"], fields["repeats"]) == ("certified", 2, 3)
    again = _record(sound, ledger)
    assert (again.returncode, "already" in again.stdout) == (0, True)
    assert ledger.read_text() == text
    ledger.write_text(text.replace("replicas: 2", "replicas: 12"))
    edited = _record(sound, ledger)
    assert edited.returncode == 2
    assert "two-nodes.replicas is 12, and the results give 2" in edited.stderr


def _refused(folder: Path, ledger: Path, *more: str) -> str:
    before = ledger.read_text()
    done = _record(folder, ledger, *more)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("fleet: ")
    assert "Traceback" not in done.stderr
    assert ledger.read_text() == before
    return done.stderr


def test_what_is_not_certified_is_refused(tmp_path: Path, ledger: Path) -> None:
    saturated = _results(tmp_path / "saturated", saturated_client=1)
    assert re.search("Checks: client-cpu[,;]", _refused(saturated, ledger))


@pytest.mark.slow
def test_bare_results_are_refused(tmp_path: Path, ledger: Path) -> None:
    bare = _results(tmp_path / "bare", repeats=1, with_run_file=False, with_witness=False)
    assert "`fleet bench run --stack STACK`" in _refused(bare, ledger)


@pytest.mark.slow
def test_a_sweep_needs_its_load_named(tmp_path: Path, ledger: Path) -> None:
    sweep = _results(tmp_path / "sweep", points=2, requests_per_client=400)
    assert "--point" in _refused(sweep, ledger)
    done = _record(sweep, ledger, "--point", "1", "--raw", "gs://kept/runs/x")
    assert (done.returncode, done.stderr) == (0, "")
    fields = yaml.safe_load(ledger.read_text())["figures"]["two-nodes"]
    assert (fields["in_flight"], fields["raw"]) == (64, "gs://kept/runs/x")


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ((), ["--baseline", "--id", "--title"]),
        (("--id", "x"), ["--title"]),
        (("--title", "x"), ["--id"]),
        (("--baseline", "b.json", "--raw", "x"), ["--id", "--ledger", "--raw", "--title"]),
    ],
)
def test_options_that_belong_together_are_asked_for(tmp_path: Path, options: tuple[str, ...], named: list[str]) -> None:
    done = fleet("bench", "record", str(tmp_path), *options, cwd=ROOT)
    assert done.returncode == 2
    assert sorted(re.findall(r"--[a-z]+", done.stderr)) == named


def test_only_a_baseline_is_written_over(tmp_path: Path) -> None:
    file = tmp_path / "run.json"
    file.write_text('{"points": [], "shape": {}}', encoding="utf-8")
    done = fleet("bench", "record", str(tmp_path), "--baseline", str(file))
    assert done.returncode == 2
    assert f"--baseline {file}: " in done.stderr
    assert file.read_text(encoding="utf-8") == '{"points": [], "shape": {}}'


@pytest.mark.slow
def test_an_entry_is_not_left_alone_by_a_baseline_that_cannot_be_written(
    sound: Path, ledger: Path, tmp_path: Path
) -> None:
    before = ledger.read_bytes()
    done = _record(sound, ledger, "--baseline", str(tmp_path / "nowhere" / "b.json"))
    assert done.returncode == 2
    assert f"fleet: {tmp_path / 'nowhere' / 'b.json'}: " in done.stderr
    assert ledger.read_bytes() == before


@pytest.mark.slow
def test_a_baseline_is_written_and_a_slower_measurement_fails_against_it(sound: Path, tmp_path: Path) -> None:
    file = tmp_path / "baseline.json"
    done = fleet("bench", "record", str(sound), "--baseline", str(file))
    assert (done.returncode, done.stderr) == (0, "")
    assert f"compare with: fleet bench merge DIR --baseline {file}" in done.stdout
    assert json.loads(file.read_text())["certificate"] == "certified"
    slower = _results(tmp_path / "slower", chunk_seconds=0.04, seed=3)
    merged = fleet("bench", "merge", str(slower), "--baseline", str(file))
    assert merged.returncode == 1, merged.stdout + merged.stderr
    assert re.search(r"total tok/s .* regressed\n", merged.stdout)
    compared = json.loads((slower / "merged.json").read_text())["comparisons"]
    assert "regressed" in [one["verdict"] for one in compared if one["quantity"] == "total tok/s"]
    same = fleet("bench", "merge", str(sound), "--baseline", str(file), "--out", str(tmp_path / "merged.json"))
    assert same.returncode == 0, same.stdout + same.stderr


@pytest.mark.slow
def test_nothing_is_compared_with_an_uncertified_baseline(tmp_path: Path) -> None:
    failing = _results(tmp_path / "failing", fail_share=0.1)
    file = tmp_path / "baseline.json"
    done = fleet("bench", "record", str(failing), "--baseline", str(file))
    assert done.returncode == 2
    assert str(file) in done.stderr
    assert "Not certified: " in done.stderr
    assert not file.exists()


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
    done = fleet(
        "bench", "record", str(results), "--id", "dev", "--title", "one node of dev", cwd=copy, PYTHONPATH=str(copy)
    )
    assert done.returncode == 0, done.stderr
    assert "Next: python -m docs.generate.provenance" in done.stdout
    total = yaml.safe_load((copy / "facts/data/measured.yaml").read_text())["figures"]["dev"]["total_tokens_per_s"][
        "mean"
    ]

    after = fleet("preview", "--stack", "dev", cwd=copy, PYTHONPATH=str(copy))
    assert f"{total:,} tok/s total" in after.stdout, after.stderr
    assert "measured 2026-05-28, vLLM 0.18.0, certified" in after.stdout
    assert "one node of dev: " in after.stdout
    assert "also published: 95,317 (published, vLLM 0.18.0)" in after.stdout
    assert "at the measured rate" in after.stdout
    other = fleet("preview", "--stack", "spot", cwd=copy, PYTHONPATH=str(copy))
    assert "1,103,941 tok/s total" in other.stdout, other.stderr
