"""The check against the real parser, as far as it can be tested without vLLM: its verdicts, its samples, its environment."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from facts.engines import VERSIONS
from settings.sections.engine import Engine, flag_fields
from tests.support.rows import each_row
from tests.vllm.check_parser import Check, RefusedError, report, samples

ROOT = Path(__file__).parents[2]


def _passes() -> None:
    return


def _refuses() -> None:
    raise RefusedError("unrecognized arguments: --disable-log-requests")


def _breaks() -> None:
    raise KeyError("something inside vLLM")


@pytest.mark.parametrize(
    ("checks", "code", "lines"),
    [
        ([("one", _passes), ("two", _passes)], 0, ["2 passed, 0 failed"]),
        (
            [("one", _passes), ("flags", _refuses)],
            1,
            ["FAILED flags: unrecognized arguments: --disable-log-requests", "1 passed, 1 failed"],
        ),
        ([("inside", _breaks)], 1, ["FAILED inside: 'something inside vLLM'", "0 passed, 1 failed"]),
        ([], 1, ["0 passed, 0 failed"]),
    ],
    ids=["clean", "one failure", "an error that is no verdict shows where it came from", "nothing is no success"],
)
def test_a_run_names_its_failures_and_closes_with_its_count(checks: list[Check], code: int, lines: list[str]) -> None:
    said: list[str] = []
    assert report(checks, said.append) == code
    assert [one.partition("\n")[0] for one in said] == lines
    assert ("_breaks" in said[0]) == (_breaks in [check for _, check in checks])


@each_row("version", VERSIONS)
@each_row("field", flag_fields())
def test_every_flag_has_samples_that_make_an_engine(field: str, version: str) -> None:
    values = samples(field, version)
    assert values
    for value in values:
        assert getattr(Engine.model_validate({field: value, "version": version}), field) == value


def test_without_vllm_it_says_what_to_install_and_exits_with_2() -> None:
    run = subprocess.run(
        [sys.executable, "-m", "tests.vllm.check_parser"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert run.returncode == 2
    assert "pip install --no-deps -r tests/vllm/0.33.0.txt" in run.stderr
    assert "Traceback" not in run.stderr


@pytest.mark.parametrize("version", ["0.18.1", "0.33.0"])
def test_it_imports_only_packages_of_vllms_own_environment(version: str) -> None:
    """`make vllm-check` runs it where vLLM and its dependencies are installed, and nothing of this project's requirements."""
    run = subprocess.run([sys.executable, "-c", _IMPORTED], cwd=ROOT, capture_output=True, text=True, check=True)
    pinned = {line.partition("==")[0].lower().replace("_", "-") for line in _pinned(version)}
    assert {"pydantic", "pyyaml"} <= set(run.stdout.split()) <= pinned


_IMPORTED = """
import importlib.metadata, sys
before = set(sys.modules)
from tests.vllm import check_parser, stand_in
class Vllm:
    model, parse, configure, options, release = "m", print, print, print, check_parser.find("0.33.0")
assert [name for name, _ in check_parser.checks(Vllm())]
modules = {name.partition(".")[0] for name in set(sys.modules) - before}
packages = importlib.metadata.packages_distributions()
print(*sorted({one.lower().replace("_", "-") for module in modules for one in packages.get(module, ())}))
"""


@pytest.mark.parametrize(("version", "torch"), [("0.18.1", "2.10.0"), ("0.33.0", "2.14.0")])
def test_an_environment_pins_one_version_of_every_package(version: str, torch: str) -> None:
    lines = _pinned(version)
    assert lines
    assert [line for line in lines if line.count("==") != 1] == []
    assert {f"torch=={torch}", f"vllm=={version}"} <= set(lines)


def _pinned(version: str) -> list[str]:
    text = (ROOT / "tests" / "vllm" / f"{version}.txt").read_text()
    return [line for line in text.splitlines() if line[:1] != "#"]
