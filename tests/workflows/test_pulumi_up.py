""".github/actions/cloud/pulumi_up.sh: one attempt at an update, with a `pulumi` that ends, fails, or is told to stop."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.workflows.steps import ROOT, outputs, run, stand_in

SCRIPT = ROOT / ".github" / "actions" / "cloud" / "pulumi_up.sh"
# Ends as Pulumi does: the first signal lets it write its state, a second one would end it at once.
WAITING = """
signals=0
trap 'signals=$((signals + 1))' TERM
echo waiting
while test $signals = 0; do sleep 0.05; done
sleep 0.3
echo "signals: $signals"
exit 8
"""


def up(folder: Path, pulumi: str, minutes: str = "1", **environment: str) -> subprocess.CompletedProcess[str]:
    stand_in(folder / "bin", "pulumi", pulumi)
    given = {
        "STACK_NAME": "organization/vllm-fleet/dev",
        "MINUTES": minutes,
        "GITHUB_SHA": "abc",
        "GITHUB_OUTPUT": "output",
        "GITHUB_STEP_SUMMARY": "summary",
    }
    return run(f"{SCRIPT} out/up.txt", cwd=folder, environment=given | environment, path=folder / "bin")


@pytest.mark.parametrize(("code", "result", "exit_code"), [(0, "finished", 0), (255, "failed", 1), (137, "failed", 1)])
def test_an_update_that_ends_by_itself(tmp_path: Path, code: int, result: str, exit_code: int) -> None:
    done = up(tmp_path, f"echo Resources: 60 created\nexit {code}\n")
    assert done.returncode == exit_code
    assert outputs(tmp_path / "output") == {"result": result}
    assert (tmp_path / "out" / "up.txt").read_text() == "Resources: 60 created\n"
    assert (tmp_path / "summary").read_text().startswith(f"### organization/vllm-fleet/dev: {result}\n")
    assert ("pulumi cancel" in done.stdout) == (code == 137)


def test_an_update_that_takes_too_long_is_asked_once_to_stop_and_is_no_failure(tmp_path: Path) -> None:
    done = up(tmp_path, WAITING, minutes="0.01")
    assert done.returncode == 0, done.stdout
    assert outputs(tmp_path / "output") == {"result": "interrupted"}
    assert "signals: 1\n" in (tmp_path / "out" / "up.txt").read_text()


def test_it_updates_what_is_there_and_asks_the_pack(tmp_path: Path) -> None:
    up(tmp_path, "printf '%s\\n' \"$*\" >calls\n", POLICY_CONFIG="policy/config/dev.json")
    call = (tmp_path / "calls").read_text()
    assert call.startswith("up --stack organization/vllm-fleet/dev --yes --refresh ")
    assert call.endswith("--message abc --policy-pack policy --policy-pack-config policy/config/dev.json\n")
