"""A router's container as a program of this machine: what of its command and configuration is replaced."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from lab.cloud.routers.files import has_token
from lab.cloud.routers.program import Place, command_of, haproxy_config
from lab.results.result import RehearsalError
from tests.lab.cloud.routers.play import NEEDS_HAPROXY
from tests.support.recorded import manifest, objects
from tests.support.rows import each_row
from tests.workloads.test_router import record
from workloads.router.haproxy import Client, Discovered, Fixed, Haproxy, config

PLACE = Place(address="127.20.1.2", own="127.148.1.2", nameserver="127.20.0.1:5300", speed=100.0)


@each_row(
    ("before", "after"),
    [
        ("    bind :8000", "    bind 127.20.1.2:8000"),
        ("    bind *:8000", "    bind 127.20.1.2:8000"),
        ("    bind 127.0.0.1:9001", "    bind 127.148.1.2:9001"),
        ("    parse-resolv-conf", "    nameserver rehearsal 127.20.0.1:5300"),
        ("    server s0 127.0.0.1:8100", "    server s0 127.148.1.2:8100"),
        # A timeout stays at two seconds of the wall, or as long as it is.
        ("    timeout server 1h", "    timeout server 36000ms"),
        ("    timeout connect 5s", "    timeout connect 2000ms"),
        ("    timeout check 500ms", "    timeout check 500ms"),
        ("    hold nx 60s", "    hold nx 60s"),
        ("store http_req_rate(10s),conn_cur", "store http_req_rate(2000ms),conn_cur"),
        ("    timeout resolve 10s", "    timeout resolve 100ms"),
        ("    hold valid 2s", "    hold valid 50ms"),
        (
            "    default-server check inter 20s fastinter 2s fall 3",
            "    default-server check inter 200ms fastinter 50ms fall 3",
        ),
        ("    hard-stop-after 580s", "    hard-stop-after 5800ms"),
        ("    clitcpka-idle 10s", "    clitcpka-idle 10s"),
        ("    maxconn 512", "    maxconn 512"),
        ("    acl key var(txn.key) -m str -f /run/key/value", "    acl key var(txn.key) -m str -f /here/value"),
        ("    acl key path /run/keyless", "    acl key path /run/keyless"),
    ],
)
def test_replaced_in_a_configuration(before: str, after: str) -> None:
    assert haproxy_config(before, PLACE, {"/run/key": Path("/here")}) == after


def test_a_command_has_its_variables_and_folders() -> None:
    container = {
        "name": "vllm-router",
        "command": ["python3", "--host=127.0.0.1", "--namespace=$(SPACE)", "--cost=$(UNKNOWN)", "/run/key/value"],
        "env": [{"name": "SPACE", "value": "vllm"}],
    }
    found = command_of(container, PLACE, {"/run/key": Path("/here")})
    assert found == [sys.executable, "--host=127.148.1.2", "--namespace=vllm", "--cost=$(UNKNOWN)", "/here/value"]


@each_row(
    ("kind", "expected"),
    [("prefixAware", {"haproxy": False, "vllm-router": True}), ("leastRequest", {"haproxy": False})],
)
def test_a_program_has_the_api_where_its_container_has_the_token(kind: str, expected: dict[str, bool]) -> None:
    pod = manifest(objects(record(kind=kind))["Deployment/router"])["spec"]["template"]
    containers = (*pod["spec"]["containers"], *pod["spec"].get("initContainers", ()))
    assert {one["name"]: has_token(pod, one) for one in containers} == expected
    by_kubelet = {"spec": {"automountServiceAccountToken": True}}
    assert has_token(by_kubelet, {"name": "a"})


def test_a_missing_program_is_named_with_what_to_type() -> None:
    with pytest.raises(RehearsalError, match="apt-get install no-such-program"):
        command_of({"name": "one", "command": ["no-such-program"]}, PLACE, {})


@NEEDS_HAPROXY
@pytest.mark.parametrize(
    "args",
    [
        Haproxy(servers=Discovered(slots=32), max_connections=1_000_000, max_in_flight=3, max_queued=4),
        Haproxy(
            servers=Fixed(addresses=("127.0.0.1:8100",)),
            max_connections=1_000,
            max_in_flight=3,
            max_queued=4,
            v1_only=True,
            key_file="/run/key/value",
            clients=(Client(name="one", key_file="/run/one/key", requests_per_second=5, max_in_flight=2),),
            hides_errors=True,
        ),
    ],
    ids=["direct", "in front of another router"],
)
def test_haproxy_takes_what_a_rehearsal_makes_of_a_configuration(args: Haproxy, tmp_path: Path) -> None:
    folders = {"/run/key": tmp_path / "servers", "/run/one": tmp_path / "one"}
    for folder, name in ((folders["/run/key"], "value"), (folders["/run/one"], "key")):
        folder.mkdir()
        (folder / name).write_text("k")
    file = tmp_path / "haproxy.cfg"
    file.write_text(haproxy_config(config(args), PLACE, folders))
    environment = {**os.environ, "SERVERS": "servers.space.svc.cluster.local", "VLLM_API_KEY": "k"}
    done = subprocess.run(
        ["haproxy", "-c", "-f", str(file)], capture_output=True, text=True, env=environment, check=False
    )
    assert done.returncode == 0, done.stderr
