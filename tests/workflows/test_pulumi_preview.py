""".github/actions/cloud/pulumi_preview.sh: the engine's answer in one word, with a `pulumi` that answers as told."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.workflows.steps import ROOT, outputs, run, stand_in

SCRIPT = ROOT / ".github" / "actions" / "cloud" / "pulumi_preview.sh"
# Source: pulumi/pulumi, NoChangesExpectedError.
CHANGES = "error: no changes were expected but changes were proposed"


def preview(folder: Path, answer: str, code: int, **environment: str) -> subprocess.CompletedProcess[str]:
    stand_in(folder / "bin", "pulumi", f"printf '%s\\n' \"$*\" >calls\necho {answer!r}\nexit {code}\n")
    given = {"STACK_NAME": "organization/vllm-fleet/dev", "GITHUB_OUTPUT": "output", "GITHUB_STEP_SUMMARY": "summary"}
    return run(f"{SCRIPT} out/preview.txt", cwd=folder, environment=given | environment, path=folder / "bin")


@pytest.mark.parametrize(
    ("answer", "code", "result", "exit_code"),
    [
        ("Resources: 60 unchanged", 0, "unchanged", 0),
        (CHANGES, 255, "changed", 0),
        ("error: could not load credentials", 255, "failed", 1),
    ],
)
def test_the_answer_in_one_word(tmp_path: Path, answer: str, code: int, result: str, exit_code: int) -> None:
    done = preview(tmp_path, answer, code)
    assert done.returncode == exit_code
    assert outputs(tmp_path / "output") == {"result": result}
    assert (tmp_path / "out" / "preview.txt").read_text() == f"{answer}\n"
    assert answer in done.stdout
    summary = (tmp_path / "summary").read_text()
    assert summary.startswith(f"### organization/vllm-fleet/dev: {result}\n")
    assert answer in summary


@pytest.mark.parametrize(
    ("environment", "settings"),
    [({}, ""), ({"POLICY_CONFIG": "policy/config/dev.json"}, " --policy-pack-config policy/config/dev.json")],
)
def test_it_compares_with_what_is_there_and_asks_the_pack_with_the_stacks_settings(
    tmp_path: Path, environment: dict[str, str], settings: str
) -> None:
    preview(tmp_path, "ok", 0, **environment)
    call = (tmp_path / "calls").read_text()
    assert call.startswith("preview --stack organization/vllm-fleet/dev --refresh --expect-no-changes ")
    assert call.endswith(f"--policy-pack policy{settings}\n")


def test_a_long_preview_fits_a_summary_and_keeps_its_end(tmp_path: Path) -> None:
    stand_in(tmp_path / "bin", "pulumi", f"printf 'line%.0s\\n' {{1..300000}}\necho '{CHANGES}'\nexit 255\n")
    environment = {"STACK_NAME": "dev", "GITHUB_OUTPUT": "output", "GITHUB_STEP_SUMMARY": "summary"}
    done = run(f"{SCRIPT} out/preview.txt", cwd=tmp_path, environment=environment, path=tmp_path / "bin")
    assert done.returncode == 0
    summary = (tmp_path / "summary").read_text()
    assert len(summary) < 1_048_576
    assert CHANGES in summary
