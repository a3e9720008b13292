"""Command lines of the programs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from lab.cloud.world import SIMULATED_NODE
from lab.control_plane import programs
from lab.control_plane.credentials import Credentials

FILES = Credentials(
    authority=Path("/f/ca.pem"),
    certificate=Path("/f/server.pem"),
    certificate_key=Path("/f/server.key"),
    service_account_key=Path("/f/sa.key"),
    tokens=Path("/f/tokens.csv"),
    kubeconfig=Path("/f/kubeconfig"),
)


def command(name: str) -> list[str]:
    lines = {
        "etcd": programs.etcd(Path("/b/etcd")),
        "api": programs.api_server(Path("/b/api"), FILES, 4321),
        "controllers": programs.controller_manager(Path("/b/kcm"), FILES, 0.5),
        "scheduler": programs.scheduler(Path("/b/scheduler"), Path("/f/s.json")),
        "kwok": programs.kwok(Path("/b/kwok"), Path("/f/kubeconfig"), Path("/f/kwok.yaml")),
    }
    return list(map(str, lines[name]))


@pytest.mark.parametrize("name", ["etcd", "api", "controllers", "scheduler", "kwok"])
def test_no_program_listens_on_anything_but_loopback(name: str) -> None:
    text = " ".join(command(name))
    assert set(re.findall(r"\b\d+\.\d+\.\d+\.\d+\b(?!/)", text)) <= {"127.0.0.1"}
    assert "http://" not in text
    if name in ("controllers", "scheduler"):
        assert "--secure-port=0" in text


def test_etcd_is_reached_through_a_socket_file_only() -> None:
    urls = [word.split("=", 1)[1] for word in command("etcd") if word.startswith("--listen")]
    assert len(urls) == 2
    assert all(url.startswith("unix://") for url in urls)
    assert f"--etcd-servers={programs.ETCD_SOCKET}" in command("api")


def test_the_api_server_keeps_default_admission_and_feature_gates() -> None:
    text = " ".join(command("api"))
    assert "admission" not in text
    assert "feature-gates" not in text
    assert "--anonymous-auth=false" in text
    assert "--secure-port=4321 --permit-port-sharing" in text


def test_kwok_gets_its_options_and_every_stage_and_plays_only_annotated_nodes() -> None:
    stages = [{"kind": "Stage", "metadata": {"name": "a"}}, {"kind": "Stage", "metadata": {"name": "b"}}]
    first, *rest = yaml.safe_load_all(programs.kwok_config(stages))
    assert rest == stages
    assert first["kind"] == "KwokConfiguration"
    assert first["options"]["manageAllNodes"] is False
    assert first["options"]["manageNodesWithAnnotationSelector"] == f"{SIMULATED_NODE}=fake"
