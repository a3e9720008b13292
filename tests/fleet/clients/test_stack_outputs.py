"""A stack's outputs: read from a file or asked of Pulumi, refused in words, the kubeconfig kept private."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from fleet.clients import stack_outputs
from fleet.clients.errors import LiveError
from tests.fleet.clients.programs import in_front, stand_in
from tests.support.rows import each_row

ROOT = Path(__file__).parents[3]
SECRET = "apiVersion: v1 # the-secret"


def outputs(**changes: Any) -> dict[str, Any]:
    """What `pulumi stack output --json --show-secrets` prints for a stack that is up; None takes an output away."""
    given: dict[str, Any] = {
        "endpoint": "http://qwen35-server.vllm.svc.cluster.local:8000",
        "clusterName": "fleet",
        "kubeconfig": SECRET,
        "project": "my-project",
        "region": "europe-west4",
        "namespace": "vllm",
        "imagePrefix": "europe-west4-docker.pkg.dev/my-project/hub",
        "resultsBucket": "results",
        "modelRevision": "a" * 40,
        "profile": "record",
        "usdPerHour": 41.5,
    }
    return {key: value for key, value in {**given, **changes}.items() if value is not None}


def test_outputs_are_read_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "outputs.json"
    file.write_text(json.dumps(outputs()))
    read = stack_outputs.read("spot", tmp_path, file)
    assert (read.endpoint, read.cluster, read.project) == (outputs()["endpoint"], "fleet", "my-project")
    assert (read.bucket, read.region, read.usd_per_hour) == ("results", "europe-west4", 41.5)
    assert "the-secret" not in repr(read)


def test_the_kubeconfig_lies_in_a_private_file_and_is_gone_afterwards() -> None:
    read = stack_outputs.accept("spot", outputs(), "here")
    former = signal.getsignal(signal.SIGTERM)
    private = read.kubeconfig_file()
    file = private.__enter__()
    assert file.read_text() == SECRET
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    trouble = KeyError()
    assert not private.__exit__(KeyError, trouble, None)
    assert not file.parent.exists()
    assert signal.getsignal(signal.SIGTERM) is former


@pytest.mark.parametrize(
    "number",
    [signal.SIGTERM, *(pytest.param(number, marks=pytest.mark.slow) for number in (signal.SIGHUP, signal.SIGINT))],
)
def test_the_kubeconfig_is_removed_when_the_program_is_stopped(tmp_path: Path, number: signal.Signals) -> None:
    script = (
        "import sys, time; from fleet.clients import stack_outputs; from tests.fleet.clients.test_stack_outputs import outputs\n"
        "with stack_outputs.accept('spot', outputs(), 'here').kubeconfig_file() as file:\n"
        "    print(file, flush=True); time.sleep(60)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script],
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdout is not None
        file = Path(process.stdout.readline().strip())
        assert file.read_text() == SECRET
        process.send_signal(number)
        try:
            assert process.wait(50) != 0
        finally:
            process.kill()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "has no outputs: it is not up"),
        ([], "contains no outputs"),
        (outputs(endpoint=None), "no output `endpoint`"),
        (outputs(region=None), "no output `region`"),
        (outputs(imagePrefix=""), "no output `imagePrefix`"),
        (outputs(kubeconfig="[secret]"), "--show-secrets"),
        (outputs(kubeconfig=None), "no output `kubeconfig`"),
    ],
)
def test_what_is_missing_is_named_with_what_makes_it(given: object, words: str) -> None:
    with pytest.raises(LiveError) as caught:
        stack_outputs.accept("spot", given, "--outputs o.json")
    assert words in str(caught.value)
    assert "pulumi" in str(caught.value)


def test_a_file_that_is_not_there_or_not_json_is_told_without_its_content(tmp_path: Path) -> None:
    with pytest.raises(LiveError, match="file not found"):
        stack_outputs.read("spot", tmp_path, tmp_path / "no.json")
    file = tmp_path / "bad.json"
    file.write_text(SECRET)
    with pytest.raises(LiveError, match="is not JSON") as caught:
        stack_outputs.read("spot", tmp_path, file)
    assert "the-secret" not in str(caught.value)


PULUMI = """
import json, os, sys
assert os.getcwd() == os.environ["WANTED_FOLDER"], os.getcwd()
assert sys.argv[1:] == ["stack", "output", "--json", "--show-secrets", "--stack", "spot", "--non-interactive"], sys.argv
sys.stderr.write(os.environ.get("SAYS", ""))
sys.stdout.write(os.environ.get("PRINTS", ""))
sys.exit(int(os.environ.get("CODE", "0")))
"""


def ask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, **environment: str) -> stack_outputs.StackOutputs:
    project = tmp_path / "project"
    project.mkdir()
    stand_in(tmp_path / "bin", "pulumi", PULUMI)
    monkeypatch.setenv("PATH", in_front(tmp_path / "bin"))
    monkeypatch.setenv("WANTED_FOLDER", str(project))
    for key, value in environment.items():
        monkeypatch.setenv(key, value)
    return stack_outputs.read("spot", project)


def test_pulumi_is_asked_in_the_projects_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert ask(tmp_path, monkeypatch, PRINTS=json.dumps(outputs())).kubeconfig == SECRET


@pytest.mark.parametrize(
    "says",
    [
        "PULUMI_ACCESS_TOKEN must be set for login during non-interactive CLI sessions",
        "no stack named 'spot' found",
        "passphrase must be set with PULUMI_CONFIG_PASSPHRASE or PULUMI_CONFIG_PASSPHRASE_FILE",
        "[401] Unauthorized: No credentials provided or are invalid.",
    ],
)
def test_pulumis_troubles_are_told_in_its_words_with_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, says: str
) -> None:
    with pytest.raises(LiveError) as caught:
        ask(tmp_path, monkeypatch, SAYS=f"error: {says}\n", CODE="255")
    assert f" failed: {says}. " in str(caught.value)
    for command in ("pulumi login", "pulumi stack ls", "pulumi up --stack spot"):
        assert command in str(caught.value)


def test_without_pulumi_a_file_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(LiveError, match="--outputs FILE") as caught:
        stack_outputs.read("spot", tmp_path)
    assert caught.value.reason == "missing program"


def test_a_pulumi_that_never_answers_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(tmp_path / "bin", "pulumi", "import time; time.sleep(60)")
    monkeypatch.setenv("PATH", in_front(tmp_path / "bin"))
    monkeypatch.setattr(stack_outputs, "PULUMI_SECONDS", 0.3)
    began = time.monotonic()
    with pytest.raises(LiveError, match="did not end within"):
        stack_outputs.read("spot", tmp_path)
    assert time.monotonic() - began < 50


PLUGIN = {"apiVersion": "client.authentication.k8s.io/v1beta1", "command": "gke-gcloud-auth-plugin"}


@each_row(
    "user",
    [
        {"exec": {**PLUGIN, "command": "/tmp/gke-gcloud-auth-plugin"}},
        {"exec": {**PLUGIN, "command": "sh", "args": ["-c", "id"]}},
        {"exec": {**PLUGIN, "env": [{"name": "PATH", "value": "/elsewhere"}]}},
        {"exec": "sh"},
        {"auth-provider": {"name": "gcp", "config": {"cmd-path": "sh"}}},
        {"tokenFile": "/etc/passwd"},
    ],
)
@each_row("as_text", [True, False])
def test_a_kubeconfig_that_runs_or_reads_something_else_is_refused(user: dict[str, Any], as_text: bool) -> None:
    config = {"users": [{"name": "a", "user": {"exec": PLUGIN}}, {"name": "b", "user": user}]}
    given = outputs(kubeconfig=json.dumps(config) if as_text else config)
    with pytest.raises(LiveError, match=next(iter(user))):
        stack_outputs.accept("spot", given, "here")
    config["users"].pop()
    assert stack_outputs.accept("spot", given | {"kubeconfig": config}, "here").kubeconfig
