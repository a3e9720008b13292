"""Servers that run otherwise than their file says are not measured: the figure would have the file's name."""

from __future__ import annotations

from pathlib import Path

import pytest

from fleet.cli.bench.as_declared import require_as_declared
from fleet.cli.exits import CommandError
from fleet.clients.kubectl import Kubectl
from tests.fleet.verify.made_cluster import MadeCluster
from tests.fleet.verify.stacks import settings_of

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


def test_a_flag_that_waits_for_an_update_is_told_with_both_values(made: MadeCluster) -> None:
    edited = settings_of("dev", engine={"maxModelLen": 2304})
    with pytest.raises(CommandError) as refused:
        require_as_declared(_kubectl(made), edited)
    for words in ("--max-model-len is 2560", "in the file 2304", "(2 pods)", "pulumi up --stack dev"):
        assert words in str(refused.value)


def test_a_variable_that_waits_for_an_update_is_told(made: MadeCluster) -> None:
    edited = settings_of("dev", engine={"useDeepGemm": False})
    with pytest.raises(CommandError, match=r"VLLM_USE_DEEP_GEMM .*in the file 0 \(2 pods\)"):
        require_as_declared(_kubectl(made), edited)


def test_another_image_is_told(made: MadeCluster) -> None:
    made.pods[1]["spec"]["containers"][0]["image"] = "hub/vllm/vllm-openai:v0.19.0"
    with pytest.raises(CommandError, match=r"image is vllm-openai:v0\.19\.0.*v0\.18\.0 .*\(1 pod\)"):
        require_as_declared(_kubectl(made), made.settings)
