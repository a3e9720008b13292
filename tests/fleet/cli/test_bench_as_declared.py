"""Servers that run otherwise than their file says are not measured: the figure would have the file's name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fleet.cli.bench.as_declared import require_as_declared
from fleet.cli.exits import CommandError
from fleet.clients.kubectl import Kubectl
from tests.fleet.verify.made_cluster import MadeCluster
from tests.fleet.verify.stacks import settings_of
from tests.support.rows import each_row

URL = "http://127.0.0.1:1"


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MadeCluster:
    cluster = MadeCluster(tmp_path, settings_of("dev"), [URL, URL])
    monkeypatch.setenv("FAKE_CLUSTER", str(cluster.folder))
    return cluster


def _kubectl(made: MadeCluster) -> Kubectl:
    made.write()
    return Kubectl(namespace="vllm", program=str(made.folder / "bin" / "kubectl"))


def test_servers_as_declared_are_measured(made: MadeCluster) -> None:
    require_as_declared(_kubectl(made), made.settings)
    assert len(made.calls) == 1  # the pods alone: neither nodes nor a gateway bear on it


@each_row(
    ("engine", "image", "words"),
    [
        (
            {"maxModelLen": 2304},
            "",
            ("--max-model-len is 2560", "in the file 2304", "(2 pods)", "pulumi up --stack dev"),
        ),
        ({"useDeepGemm": False}, "", ("VLLM_USE_DEEP_GEMM ", "in the file 0 (2 pods)")),
        ({}, "hub/vllm/vllm-openai:v0.19.0", ("image is vllm-openai:v0.19.0", "v0.18.0", "(1 pod)")),
    ],
)
def test_what_waits_for_an_update_is_told_with_both_values(
    made: MadeCluster, engine: dict[str, Any], image: str, words: tuple[str, ...]
) -> None:
    container = made.pods[1]["spec"]["containers"][0]
    container["image"] = image or container["image"]
    with pytest.raises(CommandError) as refused:
        require_as_declared(_kubectl(made), settings_of("dev", engine=engine))
    for word in words:
        assert word in str(refused.value)
