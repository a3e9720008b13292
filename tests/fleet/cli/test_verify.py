"""`fleet verify` as a user runs it: what it prints, how it ends, and that it ends."""

from __future__ import annotations

import json
import re
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from fleet.cli.exits import CommandError
from fleet.cli.verify import api_key, base_url
from tests.fleet.cli.command import ROOT, fleet, project
from tests.fleet.verify.made_cluster import MadeCluster, outputs_of
from tests.fleet.verify.stacks import KEY, node_of, served, settings_of
from tests.support.simulators.model_server.node import Faults, Pace

GUARDED = (ROOT / "Pulumi.cud.yaml").read_text().replace("# apiKeySecret:", "apiKeySecret:")


@contextmanager
def silent_server() -> Iterator[str]:
    """Takes every connection and never says a word."""
    listening = socket.create_server(("127.0.0.1", 0), backlog=128)
    kept: list[socket.socket] = []

    def take() -> None:
        while True:
            try:
                kept.append(listening.accept()[0])
            except OSError:
                return

    thread = threading.Thread(target=take, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        listening.close()
        for one in kept:
            one.close()


def test_a_good_server_ends_with_0_and_fits_80_columns() -> None:
    with served(node_of(settings_of("dev"))) as url:
        done = fleet("verify", "--stack", "dev", "--endpoint", url + "/", COLUMNS="80")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    lines = done.stdout.splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[0].startswith("vllm-fleet / dev: ")
    assert lines[1] == f"{url} · the endpoint"


def test_a_bad_server_ends_with_1_and_what_differs() -> None:
    node = node_of(settings_of("dev"), labels={"cache_dtype": "auto", "gpu_memory_utilization": "0.95"})
    with served(node, Faults(drafts_rejected=True)) as url:
        done = fleet("verify", "--stack", "dev", "--endpoint", url, COLUMNS="80")
    assert done.returncode == 1, done.stdout + done.stderr
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert "endpoint · cache_dtype: auto (error, configuration)\n    • allowed: fp8_e4m3" in done.stdout
    assert "endpoint · acceptance: " in done.stdout


def test_a_refused_connection_is_a_finding_and_not_a_traceback() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    done = fleet("verify", "--stack", "dev", "--endpoint", f"http://127.0.0.1:{port}")
    assert done.returncode == 1, done.stderr
    assert done.stderr == ""
    assert "endpoint · /health: Connection refused" in done.stdout
    assert "Traceback" not in done.stdout


@pytest.mark.parametrize(
    "given", ["127.0.0.1:8000", "ftp://host", "http://host:0", "http://host/v1", "http://host?x=1", "http://"]
)
def test_a_wrong_url_is_refused_with_what_to_write(given: str) -> None:
    with pytest.raises(CommandError) as refused:
        base_url(given)
    assert f"--endpoint {given}" in str(refused.value)
    assert base_url("http://[::1]:8000/") == "http://[::1]:8000"


def test_a_password_in_the_url_is_refused_and_not_repeated() -> None:
    with pytest.raises(CommandError) as refused:
        base_url("http://me:sk-secret@host")
    assert "sk-secret" not in str(refused.value)
    assert "VLLM_API_KEY" in str(refused.value)


# Keys


def test_a_key_that_is_not_there_is_asked_for_before_anything_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("VLLM_API_KEY", raising=False)
    with pytest.raises(CommandError, match=r"VLLM_API_KEY.* vllm-api-key"):
        api_key(settings_of("cud", apiKeySecret="vllm-api-key"))


@pytest.mark.slow
def test_a_wrong_key_is_a_finding_and_no_key_is_ever_printed(tmp_path: Path) -> None:
    root = project(tmp_path, cud=GUARDED)
    with served(node_of(settings_of("cud")), guarded=True) as url:
        arguments = ("verify", "--stack", "cud", "--endpoint", url)
        right = fleet(*arguments, cwd=root, VLLM_API_KEY=KEY)
        # As JSON: it has every word that was read.
        wrong = fleet(*arguments, "--format", "json", cwd=root, VLLM_API_KEY="sk-wrong")
    assert (right.returncode, wrong.returncode) == (0, 1), right.stdout + wrong.stdout
    assert "VLLM_API_KEY" in wrong.stdout
    for said in (right.stdout, right.stderr, wrong.stdout, wrong.stderr):
        assert KEY not in said
        assert "sk-wrong" not in said


@pytest.mark.parametrize("key", ["sk-line\nbreak", "sk-ümlaut"])
def test_a_key_that_no_header_takes_is_refused_and_not_repeated(monkeypatch: pytest.MonkeyPatch, key: str) -> None:
    monkeypatch.setenv("VLLM_API_KEY", key)
    with pytest.raises(CommandError, match="VLLM_API_KEY") as refused:
        api_key(settings_of("cud", apiKeySecret="vllm-api-key"))
    assert "sk-" not in str(refused.value)


# The cluster


def test_outputs_lead_to_cluster_and_pods_and_the_kubeconfig_stays_private(tmp_path: Path) -> None:
    settings = settings_of("dev")
    with served(node_of(settings)) as url:
        made = MadeCluster(tmp_path / "cluster", settings, [url])
        made.write()
        told = tmp_path / "outputs.json"
        told.write_text(json.dumps(outputs_of(settings, "http://qwen35-server.vllm.svc.cluster.local:8000")))
        given = {"FAKE_CLUSTER": str(made.folder), "COLUMNS": "80"}
        done = fleet("verify", "--stack", "dev", "--outputs", str(told), path=made.path, **given)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "✗" not in done.stdout
    assert "qwen35-server.vllm.svc.cluster.local" in done.stdout
    assert "kubeconfig-secret-of-the-tests" not in done.stdout + done.stderr
    used = {word for call in made.calls for word in call.split() if word.startswith("--kubeconfig=")}
    assert len(used) == 1
    assert not Path(used.pop().removeprefix("--kubeconfig=")).exists()


# Time


@pytest.mark.slow
def test_a_server_that_says_nothing_does_not_hold_the_command() -> None:
    began = time.monotonic()
    with silent_server() as url:
        done = fleet("verify", "--stack", "dev", "--endpoint", url)
    assert done.returncode == 1, done.stderr
    assert "endpoint · /health: " in done.stdout
    assert time.monotonic() - began < 25


@pytest.mark.slow
def test_a_server_that_greets_and_then_hangs_does_not_hold_the_command_either() -> None:
    """Its engines take an hour for a step."""
    settings = settings_of("cud")
    began = time.monotonic()
    with served(node_of(settings, pace=Pace(fixed_s=3_600))) as url:
        done = fleet("verify", "--stack", "cud", "--endpoint", url)
    assert done.returncode == 1, done.stderr
    assert time.monotonic() - began < 75
    said = " ".join(done.stdout.split())
    for named, seconds in (("chat", 20), ("burst", 12)):
        assert re.search(rf"{named}: [^:]* within {seconds} s", said)


@pytest.mark.slow
def test_a_kubectl_that_hangs_does_not_hold_the_command_either(tmp_path: Path) -> None:
    settings = settings_of("dev")
    began = time.monotonic()
    with served(node_of(settings)) as url:
        made = MadeCluster(tmp_path / "cluster", settings, [url])
        made.write()
        (made.folder / "hang").touch()
        kubeconfig = tmp_path / "kubeconfig"
        kubeconfig.touch()
        arguments = ("--stack", "dev", "--endpoint", url, "--kubeconfig", str(kubeconfig))
        done = fleet("verify", *arguments, path=made.path, FAKE_CLUSTER=str(made.folder))
    assert done.returncode == 0, done.stdout + done.stderr
    assert time.monotonic() - began < 50
    assert "no response from kubectl" in " ".join(done.stdout.split())
