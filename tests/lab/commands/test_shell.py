"""The shell of a rehearsed stack: what it runs, in which environment, and how it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lab.commands import shell
from lab.engine.installation import Installation, Plugin
from tests.fleet.cli.command import ROOT
from tests.support.stacks import recorded_stack


@pytest.fixture
def pulumi(tmp_path: Path) -> Any:
    """A driver whose `pulumi` prints its arguments."""
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "pulumi"
    program.write_text('#!/bin/sh\necho "$@"\n')
    program.chmod(0o755)
    (tmp_path / "project").mkdir()
    return SimpleNamespace(
        folder=tmp_path,
        installation=Installation(program=program, version="v3.274.1", is_users_own=False),
        environment={"PATH": "/usr/bin:/bin", "KUBECONFIG": str(tmp_path / "kubeconfig")},
        project=SimpleNamespace(folder=tmp_path / "project"),
    )


@pytest.fixture
def variables(pulumi: Any) -> dict[str, str]:
    return shell.environment(pulumi, stack="smoke")


def test_the_rehearsals_pulumi_is_first_on_the_path(
    pulumi: Any, variables: dict[str, str], capfd: pytest.CaptureFixture[str]
) -> None:
    assert shell.run_commands(("pulumi up --yes 'a b'",), pulumi.folder, variables) == 0
    assert capfd.readouterr().out == "up --yes a b\n"


def test_commands_run_in_the_folder_until_one_fails(
    pulumi: Any, variables: dict[str, str], capfd: pytest.CaptureFixture[str]
) -> None:
    folder = pulumi.project.folder
    assert shell.run_commands(("pwd", "echo $KUBECONFIG; exit 3", "echo never"), folder, variables) == 3
    assert capfd.readouterr().out == f"{folder}\n{pulumi.folder / 'kubeconfig'}\n"
    assert shell.run_commands(("kill -9 $$",), folder, variables) == 137


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("/bin/bash", ["/bin/bash", "--noprofile", "--norc"]),
        ("/bin/sh", ["bash", "--noprofile", "--norc"]),
        ("/nowhere/zsh", ["bash", "--noprofile", "--norc"]),
        ("", ["bash", "--noprofile", "--norc"]),
    ],
)
def test_the_users_shell_runs_without_start_up_files(given: str, expected: list[str]) -> None:
    program, *options = shell.interactive({"SHELL": given})
    assert Path(program).name == Path(expected[0]).name
    assert options == expected[1:]


def test_the_banner_tells_the_versions_and_what_is_missing(pulumi: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(pulumi.environment, "PATH", "/nowhere")
    said = shell.banner(pulumi, Plugin(program=Path("/nowhere"), version="v4.24.0"), stack="smoke")
    for word in ("v3.274.1", "v4.24.0", "kubectl", "pulumi stack init smoke"):
        assert word in said


def test_ctrl_c_is_for_the_command_and_the_shell_goes_on(pulumi: Any, variables: dict[str, str]) -> None:
    def press() -> None:
        while not (pulumi.folder / "up").exists():
            time.sleep(0.02)
        os.kill(os.getpid(), signal.SIGINT)
        (pulumi.folder / "pressed").touch()

    pressing = threading.Thread(target=press)
    pressing.start()
    command = f"touch {pulumi.folder}/up; while [ ! -e {pulumi.folder}/pressed ]; do sleep 0.02; done; exit 5"
    assert shell.run_commands((command,), pulumi.folder, variables) == 5
    pressing.join()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


SMOKE = (
    "pulumi stack init smoke",
    "pulumi config set gcp:project my-project --stack smoke",
    "pulumi up --yes --stack smoke > up.txt",
    "grep -c 'created (' up.txt",
    "fleet preview --stack smoke --no-policy --format json > preview.json && test -s preview.json",
    "env | grep -c ACCESS_TOKEN",
)


@pytest.mark.slow
def test_the_first_day_is_typed_into_a_rehearsed_stack(tmp_path: Path) -> None:
    before = (ROOT / "Pulumi.smoke.yaml").read_bytes()
    options = [word for line in SMOKE for word in ("--command", line)]
    program = "import sys; from fleet.cli.main import main; sys.exit(main())"
    done = subprocess.run(
        [sys.executable, "-c", program, "rehearse", "--stack", "smoke", *options],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path), "PULUMI_ACCESS_TOKEN": "mine"},
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    # The last one fails, because there is no token: its code is the command's.
    assert done.returncode == 1, done.stderr
    *_, created, tokens = done.stdout.split()
    assert int(created) >= sum(one.custom for one in recorded_stack("smoke").resources) > 25, done.stdout
    assert tokens == "0"
    assert (ROOT / "Pulumi.smoke.yaml").read_bytes() == before
    assert list(tmp_path.iterdir()) == []
