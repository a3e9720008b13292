"""kubectl as a process: its answers, its troubles in words, its children ended on every way out. A stand-in plays the program."""

from __future__ import annotations

from pathlib import Path

import pytest

from fleet.clients import kubectl as module
from fleet.clients import kubectl_errors
from fleet.clients.errors import LiveError
from fleet.clients.kubectl import Kubectl
from tests.fleet.clients.programs import stand_in
from tests.support.rows import each_row
from tests.support.waiting import alive, within

# Writes down its process id, and does what the first word says.
PROGRAM = """
import json, os, pathlib, signal, subprocess, sys, time
folder = pathlib.Path(__file__).parent
with open(folder / "pids", "a") as file:
    file.write(f"{os.getpid()}\\n")
(folder / "arguments").write_text(json.dumps(sys.argv[1:]))
words = [word for word in sys.argv[1:] if not word.startswith("--")]
if words[0] == "get":
    print(json.dumps({"metadata": {"name": words[2]}}))
elif words[0] == "create":
    made = json.load(sys.stdin)
    made["metadata"]["uid"] = "1234"
    print(json.dumps(made))
elif words[0] == "hang":
    child = subprocess.Popen(["sleep", "600"])
    with open(folder / "pids", "a") as file:
        file.write(f"{child.pid}\\n")
    time.sleep(600)
elif words[0] == "port-forward":
    if words[1] == "pod/stubborn":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if words[1] == "pod/gone":
        sys.exit('Error from server (NotFound): pods "gone" not found')
    if words[1] != "pod/silent":
        print("Forwarding from 127.0.0.1:40123 -> 8000", flush=True)
        for _ in range(20000):
            print("Handling connection for 40123", flush=True)
        (folder / "written").touch()
    time.sleep(600)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    stand_in(tmp_path, "kubectl", PROGRAM)
    return tmp_path


@pytest.fixture
def kubectl(folder: Path) -> Kubectl:
    return Kubectl(namespace="vllm", context="mine", program=str(folder / "kubectl"))


def left(folder: Path) -> list[int]:
    # On a busy machine a program may be ended before it has written anything.
    pids = (folder / "pids").read_text() if (folder / "pids").exists() else ""
    return [pid for pid in map(int, pids.split()) if alive(pid)]


def outlived(folder: Path) -> list[int]:
    """Who is still there after the moment that the kernel takes to end what was killed."""
    within(60, lambda: not left(folder))
    return left(folder)


def test_objects_are_read_and_made(kubectl: Kubectl, folder: Path) -> None:
    assert kubectl.get("job", "b")["metadata"]["name"] == "b"
    arguments = (folder / "arguments").read_text()
    assert '"--context=mine", "--namespace=vllm"' in arguments
    assert "--request-timeout=30s" in arguments
    assert kubectl.create({"kind": "Job", "metadata": {"name": "b"}})["metadata"]["uid"] == "1234"
    kubectl.delete("job", "b")
    assert '"delete", "job", "b", "--ignore-not-found", "--wait=false"' in (folder / "arguments").read_text()


def test_what_is_no_json_is_told(tmp_path: Path) -> None:
    stand_in(tmp_path, "kubectl", "print('a wrapper says hello')")
    with pytest.raises(LiveError, match=r"reading job b: .*JSON"):
        Kubectl(namespace="vllm", program=str(tmp_path / "kubectl")).get("job", "b")


def test_a_call_that_hangs_is_ended_with_its_children(
    kubectl: Kubectl, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SPARE_SECONDS", 0.5)
    with pytest.raises(LiveError, match="no response") as caught:
        kubectl.run("hang", what="trying", seconds=0.3)
    assert caught.value.reason == "timeout"
    assert outlived(folder) == []


def test_a_port_is_forwarded_while_the_block_lasts(kubectl: Kubectl, folder: Path) -> None:
    with kubectl.port_forward("pod/a", 8000) as port:
        assert port == 40123
        # It is read on: a full pipe would stop the tunnel.
        assert within(60, (folder / "written").exists)
        assert len(left(folder)) == 1
    assert outlived(folder) == []


def test_a_tunnel_that_does_not_want_to_end_is_ended(
    kubectl: Kubectl, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "STOP_SECONDS", 0.2)
    trouble = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt), kubectl.port_forward("pod/stubborn", 8000):
        raise trouble
    assert outlived(folder) == []


def test_a_tunnel_that_does_not_come_up_is_told(
    kubectl: Kubectl, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(LiveError, match='pods "gone" not found') as caught, kubectl.port_forward("pod/gone", 8000):
        pass
    assert caught.value.reason == "not found"
    monkeypatch.setattr(module, "START_SECONDS", 0.3)
    with pytest.raises(LiveError, match="no local port after"), kubectl.port_forward("pod/silent", 8000):
        pass
    assert outlived(folder) == []


def test_no_kubectl_at_all(tmp_path: Path) -> None:
    nowhere = Kubectl(namespace="vllm", program=str(tmp_path / "kubectl"))
    with pytest.raises(LiveError, match="gcloud components install kubectl") as caught:
        nowhere.get("job", "b")
    assert caught.value.reason == "missing program"
    with pytest.raises(LiveError, match="kubectl"), nowhere.port_forward("pod/a", 8000):
        pass


@each_row(
    ("said", "reason", "words"),
    [
        ('Error from server (NotFound): jobs.batch "b" not found', "not found", 'jobs.batch "b" not found'),
        ('Error from server (AlreadyExists): jobs.batch "b" already exists', "already exists", "already exists"),
        (
            'Error from server (Forbidden): jobs.batch is forbidden: User "me@x.org" cannot create resource "jobs" in API group '
            '"batch" in the namespace "vllm": requires one of ["container.jobs.create"] permission(s).',
            "forbidden",
            "roles/container.developer",
        ),
        (
            "Unable to connect to the server: getting credentials: exec: executable gke-gcloud-auth-plugin not found\n\nIt looks "
            "like you are trying to use a client-go credential plugin that is not installed.",
            "missing program",
            "gcloud components install gke-gcloud-auth-plugin",
        ),
        (
            "Unable to connect to the server: getting credentials: exec: executable gke-gcloud-auth-plugin failed with exit code 1",
            "credentials",
            "gcloud auth login",
        ),
        (
            "F1121 17:37:13.441432   14385 cred.go:145] print credential failed with error: exit status 1 (err: ERROR: "
            "(gcloud.config.config-helper) You do not currently have an active account selected.\nPlease run:\n\n  $ gcloud auth "
            "login\n\nto obtain new credentials.\n)\nUnable to connect to the server: getting credentials: exec: executable "
            "gke-gcloud-auth-plugin failed with exit code 1",
            "credentials",
            "failed with exit code 1 (You do not currently have an active account selected). What to do",
        ),
        (
            'Error from server (Forbidden): error when creating "STDIN": admission webhook "w" denied the request: GKE Warden\n'
            "Violations details: {}",
            "forbidden",
            "GKE Warden Violations details: {}",
        ),
        ("error: You must be logged in to the server (Unauthorized)", "credentials", "gcloud auth login"),
        ("Error from server: etcdserver: leader changed", "unreachable", "leader changed"),
        (
            "Error from server (ServiceUnavailable): the server is currently unable to handle the request",
            "unreachable",
            "currently unable",
        ),
        (
            "Error from server (NotFound): the server could not find the requested resource",
            "unreachable",
            "could not find the requested resource",
        ),
        (
            "error: error reading from error stream: next reader: read tcp 192.0.2.7:50512->192.0.2.1:443: use of closed connection",
            "unreachable",
            "use of closed connection",
        ),
        (
            "F1121 17:37:13.441432   14385 cred.go:145] print credential failed with error: exit status 1 (err: ERROR: "
            "(gcloud.config.config-helper) There was a problem refreshing your current auth tokens: HTTPSConnectionPool("
            "host='oauth2.googleapis.com', port=443): Max retries exceeded with url: /token\n)\nUnable to connect to the server: "
            "getting credentials: exec: executable gke-gcloud-auth-plugin failed with exit code 1",
            "unreachable",
            "check the network",
        ),
        ('error: context "x" does not exist', "refused", "kubectl config get-contexts"),
        (
            'E1121 16:50:31.714976    5984 memcache.go:265] "Unhandled Error" err="dial tcp"\n'
            "The connection to the server 192.0.2.1:6443 was refused - did you specify the right host or port?",
            "unreachable",
            "VPN",
        ),
        (
            "The connection to the server localhost:8080 was refused - did you specify the right host or port?",
            "refused",
            "kubectl config get-contexts",
        ),
        ("Unable to connect to the server: dial tcp: lookup gke-1.gke.goog: no such host", "unreachable", "VPN"),
        (
            "error: Internal error occurred: OCI runtime exec failed: exec failed: unable to start container process: exec: "
            '"nvidia-smi": executable file not found in $PATH: unknown',
            "missing program",
            "nvidia-smi",
        ),
        ("error: something new", "refused", "something new"),
        ("", "refused", "without a message"),
    ],
)
def test_kubectls_words_are_told_with_what_to_do(said: str, reason: str, words: str) -> None:
    error = kubectl_errors.live_error("trying", said)
    assert (error.reason, str(error).startswith("trying: ")) == (reason, True)
    assert words in str(error)
    assert "Unhandled" not in str(error)
