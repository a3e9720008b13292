"""How `fleet` says no: one message on stderr, exit code 2, never a traceback."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest

from facts.ledger import LedgerError
from facts.user_error import UserError
from fleet.cli import VERSION, app, lab, main
from fleet.cli.exits import DEFECT, UNUSABLE, CommandError, error_text
from fleet.cli.main import _run
from fleet.doctor import packages
from fleet.doctor.packages import LAB_INSTALL
from settings.problems import SettingsError
from tests.conftest import Golden
from tests.fleet.cli.command import COMMAND, ROOT, SMALL_STACK, fleet, project
from tests.support.canaries import CANARIES, shown
from tests.support.rows import each_row


def refused(*arguments: str, cwd: Path = ROOT, path: str | None = None) -> str:
    done = fleet(*arguments, cwd=cwd, path=path)
    assert done.returncode == 2, done.stdout + done.stderr
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    return done.stderr


def test_version_is_that_of_the_package() -> None:
    declared = re.search(r'^version = "(.+)"$', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert declared is not None
    assert declared[1] == VERSION
    assert fleet("--version").stdout == f"fleet {VERSION}\n"


def test_a_secret_reaches_no_stream(tmp_path: Path) -> None:
    canary = CANARIES["hugging-face"]
    folder = project(tmp_path, blue=f"{SMALL_STACK}  vllm-fleet:labels: {{team: {canary}}}\n", green=SMALL_STACK)
    for command in (("check",), ("preview", "--format", "json")):
        assert "secret" in refused(*command, "--stack", "blue", cwd=folder)
        assert not shown(refused(*command, "--stack", "blue", cwd=folder))
    assert not shown(refused("preview", "--stack", "green", "--against", canary, cwd=folder))


def test_the_stack_may_come_from_the_environment(tmp_path: Path) -> None:
    done = fleet("check", cwd=project(tmp_path, blue=SMALL_STACK), PULUMI_STACK="blue")
    assert done.returncode == 0, done.stderr


def test_a_renamed_project_is_refused_before_anything_is_read_or_written(tmp_path: Path) -> None:
    """The engine would look for `fleet:zones` and stop; an offline command that stays green would hide it."""
    folder = project(tmp_path, blue=SMALL_STACK)
    (folder / "Pulumi.yaml").write_text("name: fleet\nruntime: python\n")
    plan = ("plan", "--users", "100", "--write", "green")
    for command in (("preview", "--stack", "blue"), ("check", "--stack", "blue"), plan):
        assert "name: vllm-fleet" in refused(*command, cwd=folder)
    assert not (folder / "Pulumi.green.yaml").exists()


def test_a_folder_without_a_project_is_told(tmp_path: Path) -> None:
    message = refused("preview", "--stack", "dev", cwd=tmp_path)
    assert "Pulumi.yaml" in message
    assert "--root" in message
    assert "Pulumi.yaml" in refused("preview", "--stack", "dev", "--root", str(tmp_path))


def test_the_project_is_found_from_a_folder_below_it(tmp_path: Path) -> None:
    below = project(tmp_path, blue=SMALL_STACK) / "docs" / "deep"
    below.mkdir(parents=True)
    assert fleet("check", "--stack", "blue", cwd=below).returncode == 0


WRONG = (
    "preview",
    "preview --stack grene",
    "preview --stack bad",
    "preview --stack wrong",
    "preview --stack blue --format sarif",
    "plan --users abc",
    "new blue --from green",
    "plan",
    "verify --stack blue --endpoint 127.0.0.1:8000",
    "verify --stack blue",
    "bench report none",
)


def test_what_refusals_read_like(tmp_path: Path, golden: Golden) -> None:
    wrong = SMALL_STACK + '  vllm-fleet:sever: {}\n  vllm-fleet:monitoring: {intervalSeconds: "15"}\n'
    folder = project(tmp_path, blue=SMALL_STACK, green=SMALL_STACK, bad="config:\n  a: [1,\n  b: 2\n", wrong=wrong)
    said = (f"$ fleet {line}\n{refused(*line.split(), cwd=folder, path='/nowhere')}" for line in WRONG)
    golden("cli/refusals.txt", "\n".join(said).replace(str(tmp_path), "/project"))


def test_a_program_that_cannot_be_recorded_is_told_in_words(tmp_path: Path) -> None:
    folder = project(tmp_path, blue=SMALL_STACK)
    (folder / "__main__.py").write_text("raise ValueError('the quota is 64 GPUs')\n")
    message = refused("preview", "--stack", "blue", "--no-policy", cwd=folder)
    assert "the quota is 64 GPUs" in message
    assert "__main__.py:1" in message


def test_an_output_folder_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    folder = project(tmp_path, blue=SMALL_STACK)
    (folder / "__main__.py").write_text("import pulumi\n")
    (folder / "taken").write_text("a file")
    message = refused("preview", "--stack", "blue", "--no-policy", "--out", "taken/below", cwd=folder)
    assert "taken is not a folder" in message


def test_a_stream_that_is_closed_is_no_defect() -> None:
    command = shlex.join(COMMAND)
    for arguments, streams, code in (
        ("models", ">&-", 0),
        ("check --stack nowhere", "2>&-", 2),
    ):
        done = subprocess.run(
            ["sh", "-c", f"{command} {arguments} {streams}"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert (done.returncode, "Traceback" in done.stderr) == (code, False), done.stderr


def test_a_defect_is_one_line_and_the_way_to_its_traceback() -> None:
    message = error_text(KeyError("spec"))
    assert "unexpected KeyError" in message
    assert "FLEET_DEBUG=1" in message


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (CommandError("no stack"), UNUSABLE),
        (SettingsError("x", ()), UNUSABLE),
        (LedgerError("no entry"), UNUSABLE),
        (FileNotFoundError(2, "No such file", "a"), UNUSABLE),
        (ModuleNotFoundError("No module named 'numpy'", name="numpy"), UNUSABLE),
        (ModuleNotFoundError("No module named 'fleet.gone'", name="fleet.gone"), DEFECT),
        (KeyError("spec"), DEFECT),
        (ValueError("2 of 3"), DEFECT),
    ],
)
def test_a_wrong_input_and_a_defect_have_codes_of_their_own(
    error: Exception, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails() -> None:
        raise error

    monkeypatch.setattr(main, "_run", fails)
    assert main._guarded() == code
    assert ("This is a bug in fleet" in capsys.readouterr().err) is (code == DEFECT)


@each_row(
    ("command", "needs", "target"),
    [
        ("bench run --stack spot --outputs no.json", ("numpy", "google.cloud.storage"), "benchmark"),
        ("bench fetch latest --stack spot --outputs no.json", ("numpy", "google.cloud.storage"), "benchmark"),
        ("bench report nowhere", ("numpy", "google.cloud.storage"), "benchmark"),
        ("bench compare nowhere nowhere", ("numpy", "google.cloud.storage"), "benchmark"),
        ("verify --stack spot --endpoint http://127.0.0.1:9", ("aiohttp",), "benchmark"),
        ("rehearse --stack spot", ("trustme", "googleapiclient"), "rehearsal"),
    ],
)
def test_what_a_command_needs_is_missed_before_any_work(command: str, needs: tuple[str, ...], target: str) -> None:
    said = rf"make setup-{target} .*--editable '\.\[{target}\]'"
    for missing in needs:
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(ROOT)
            patch.setattr(packages, "find_spec", lambda name, missing=missing: None if name == missing else name)
            patch.setattr("sys.argv", ["fleet", *command.split()])
            with pytest.raises(UserError, match=f"^{missing} .*: {said}"):
                _run()


@pytest.mark.parametrize(
    ("command", "missing", "target", "project"),
    [
        ("preview", "pulumi", "setup", "."),
        ("rehearse", "kubernetes.client", "setup-rehearsal", ".[rehearsal]"),
        ("rehearse", "trustme", "setup-rehearsal", ".[rehearsal]"),
        ("bench report", "numpy", "setup-benchmark", ".[benchmark]"),
        ("verify", "prometheus_client", "setup-benchmark", ".[benchmark]"),
    ],
)
def test_a_missing_package_is_told_with_the_command_that_installs_the_least(
    command: str, missing: str, target: str, project: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", ["fleet", *command.split()])
    message = error_text(ModuleNotFoundError(f"No module named '{missing}'", name=missing))
    assert f"{missing} is not installed" in message
    assert f"make {target} " in message
    assert f"pip install -c constraints.txt --editable '{project}'" in message


def test_debug_shows_the_traceback(tmp_path: Path) -> None:
    folder = project(tmp_path, blue=SMALL_STACK)
    (folder / "__main__.py").write_text("raise ValueError('no')\n")
    done = fleet("preview", "--stack", "blue", "--no-policy", cwd=folder, FLEET_DEBUG="1")
    assert "Traceback" in done.stderr


@pytest.mark.parametrize(
    "command",
    ["models", pytest.param("preview --stack dev --no-policy", marks=pytest.mark.slow)],
)
def test_a_reader_that_goes_away_ends_it_quietly(command: str) -> None:
    with subprocess.Popen(
        [*COMMAND, *command.split()],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
        process.wait(20)
    assert process.returncode == 141


@pytest.mark.parametrize("options", [("--list",), ("--stack", "dev", "-c", "kubectl get pods")])
def test_without_the_lab_a_rehearsal_says_what_to_install(
    options: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app, "import_module", lambda _: SimpleNamespace(rehearse=lab._missing, CONTEXT=lab.WITHOUT))
    monkeypatch.setattr("sys.argv", ["fleet", "rehearse", *options])
    with pytest.raises(UserError, match=LAB_INSTALL):
        _run()
