"""The tokenizer at its pinned revision, and nothing of the weights."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from fnmatch import fnmatch
from pathlib import Path

import pytest

from workloads.benchmark.pods import fetch_tokenizer

FAKE_HUB = """
import json, os, pathlib
CALLS = pathlib.Path(os.environ["CALLS"])
def snapshot_download(repository, **options):
    made = CALLS.read_text().splitlines() if CALLS.exists() else []
    call = {"repository": repository, **options, "xet": os.environ.get("HF_HUB_DISABLE_XET")}
    CALLS.write_text("\\n".join([*made, json.dumps(call)]))
    if len(made) < int(os.environ["FAILURES"]):
        raise OSError("the line is bad")
"""


def run(tmp_path: Path, *, failures: int) -> tuple[subprocess.CompletedProcess[str], list[dict[str, object]]]:
    (tmp_path / "huggingface_hub.py").write_text(FAKE_HUB)
    calls = tmp_path / "calls"
    root = Path(fetch_tokenizer.__file__).parents[3]
    code = (
        "from workloads.benchmark.pods import fetch_tokenizer; "
        "fetch_tokenizer.main('the/model', 'abc', '/scratch/tokenizer', pause_seconds=0.0)"
    )
    environment = {
        **os.environ,
        "PYTHONPATH": f"{root}:{tmp_path}",
        "CALLS": str(calls),
        "FAILURES": str(failures),
    }
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=30)
    return done, [json.loads(line) for line in calls.read_text().splitlines()]


@pytest.mark.parametrize(("failures", "tries", "code"), [(0, 1, 0), (4, 5, 0), (99, 5, 1)])
def test_it_asks_for_the_pinned_revision_without_xet_again_and_again(
    tmp_path: Path, failures: int, tries: int, code: int
) -> None:
    done, calls = run(tmp_path, failures=failures)
    assert (done.returncode, len(calls)) == (code, tries)
    for call in calls:
        assert (call["repository"], call["revision"], call["local_dir"]) == ("the/model", "abc", "/scratch/tokenizer")
        assert call["xet"] == "1"
    assert "Traceback" not in done.stderr
    assert ("the/model at abc: the line is bad" in done.stderr) == bool(code)


@pytest.mark.parametrize(
    "name", ["model.safetensors", "model-00001-of-00002.safetensors", "model.safetensors.index.json"]
)
def test_no_pattern_matches_the_weights(name: str) -> None:
    assert not any(fnmatch(name, pattern) for pattern in fetch_tokenizer.PATTERNS)
