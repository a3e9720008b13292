"""The article's lessons: each refused or reported under its exact condition, with its figure."""

from __future__ import annotations

from typing import Any

import pytest

from settings.load import check
from settings.problems import Problem
from tests.support.settings import make_settings


def found(profile: str = "record", **sections: Any) -> dict[str, Problem]:
    server = {"replicas": 1, "profile": profile, **sections.pop("server", {})}
    return {problem.id: problem for problem in check(make_settings(server=server, **sections))}


def engine(**overrides: Any) -> dict[str, Problem]:
    return found(server={"engine": overrides})


NO_PREFIX_CACHE = {"enablePrefixCaching": None, "mambaCacheMode": None, "mambaBlockSize": None}


@pytest.mark.parametrize(
    ("id_", "overrides", "level", "figure"),
    [
        ("tp8-on-one-gpu-model", {"dataParallelSize": 1, "tensorParallelSize": 8}, "refused", "22,300"),
        ("mtp-above-one", {"speculative": {"numSpeculativeTokens": 2}}, "finding", "90,567"),
        ("mtp-above-one", {"speculative": {"numSpeculativeTokens": 5}}, "refused", "84.7"),
        ("utilisation-with-mtp", {"gpuMemoryUtilization": 0.95, "kvCacheDtype": "auto"}, "refused", "908"),
        ("utilisation-with-mtp", {"gpuMemoryUtilization": 0.95}, "finding", "95,391"),
        ("utilisation-with-mtp", {"gpuMemoryUtilization": 0.95, "estimateCudagraphs": None}, "refused", "CUDA-graph"),
        ("cudagraph-estimate-unset", {"estimateCudagraphs": None}, "refused", "capture"),
        ("hybrid-prefix-cache-flags", {"mambaCacheMode": None}, "refused", "ten-fold"),
        ("mamba-flags-without-prefix-caching", {"enablePrefixCaching": None}, "refused", "refuses to start"),
        ("sequences-below-load", {"maxNumSeqs": 200}, "refused", "512"),
        ("batch-below-sequences", {"maxNumBatchedTokens": 4096}, "refused", "one token of every sequence"),
        ("context-far-above-need", {"maxModelLen": 131072}, "refused", "99.4 %"),
        ("context-below-need", {"maxModelLen": 1024}, "refused", "longer requests"),
        ("engine-ready-timeout", {"engineReadyTimeoutSeconds": 600}, "refused", "600 s"),
        ("expert-parallel-on-dense-model", {"enableExpertParallel": True}, "refused", "no experts"),
    ],
)
def test_an_engine_setting_that_the_article_paid_for(
    id_: str, overrides: dict[str, Any], level: str, figure: str
) -> None:
    problem = engine(**overrides)[id_]
    assert problem.level == level
    assert figure in problem.why
    assert problem.path.startswith("vllm-fleet:server.engine.")
    assert problem.write


@pytest.mark.parametrize(
    ("id_", "overrides"),
    [
        ("mtp-above-one", {"speculative": {"numSpeculativeTokens": 1}}),
        ("utilisation-with-mtp", {"gpuMemoryUtilization": 0.95, "speculative": None}),
        ("cudagraph-estimate-unset", {"gpuMemoryUtilization": 0.9, "estimateCudagraphs": None}),
        ("sequences-below-load", {"maxNumSeqs": 250}),
        ("context-far-above-need", {"maxModelLen": 4096}),
        ("engine-ready-timeout", {"engineReadyTimeoutSeconds": 1800}),
        ("prefix-cache-never-hits", {"maxModelLen": 4096}),
        ("prefix-cache-never-hits", NO_PREFIX_CACHE),
    ],
)
def test_the_other_side_of_each_condition_is_silent(id_: str, overrides: dict[str, Any]) -> None:
    assert id_ not in engine(**overrides)


def test_prefix_caching_that_cannot_hit_says_which_prompt_could() -> None:
    problem = engine(enablePrefixCaching=True)["prefix-cache-never-hits"]
    assert problem.level == "refused"  # written by hand, so the profile does not excuse it
    assert "3169" in problem.why
    assert "1584" in problem.why


def test_the_record_repeats_its_lessons_on_purpose_as_findings() -> None:
    problems = found("record")
    assert problems["prefix-cache-never-hits"].level == "finding"
    assert "on purpose" in problems["prefix-cache-never-hits"].why
    assert not [problem for problem in problems.values() if problem.level == "refused"]


def test_an_image_of_another_release_is_refused() -> None:
    digest = "sha256:" + "0" * 64
    old = found(server={"image": {"tag": "v0.18.0", "digest": digest}})["deepgemm-accuracy"]
    assert "DeepGEMM" in old.why
    safe = found(server={"image": {"tag": "v0.18.0", "digest": digest}, "engine": {"useDeepGemm": False}})
    assert "deepgemm-accuracy" not in safe
    assert "image-not-checked" in found(server={"image": {"tag": "v0.20.2", "digest": digest}})


def test_cpu_for_one_engine_does_not_feed_eight() -> None:
    problem = found(server={"resources": {"cpu": 8}})["cpu-starves-engines"]
    assert problem.level == "refused"
    assert "1.1 to 1.3 cores" in problem.why


@pytest.mark.parametrize("family", ["c4", "n4", "e2"])
def test_a_writer_that_cannot_attach_the_volume_is_refused(family: str) -> None:
    assert found(weights={"writer": {"machineFamily": family}})["writer-cannot-attach"].level == "refused"


def test_a_gateway_without_its_subnet_is_refused() -> None:
    problems = found(gateway={"enabled": True}, network={"proxyOnly": {"enabled": False}})
    assert problems["gateway-without-proxy-only-subnet"].level == "refused"
    assert "gateway-without-proxy-only-subnet" not in found(gateway={"enabled": True})


@pytest.mark.parametrize(("replicas", "level"), [(8, "refused"), (1, "finding")])
def test_a_small_endpoint_picker_is_judged_by_its_connections(replicas: int, level: str) -> None:
    gateway = {"enabled": True, "epp": {"cpu": 4}}
    assert found(gateway=gateway, server={"replicas": replicas})["epp-undersized"].level == level


def test_endpoint_picker_replicas_are_standby_and_said_to_be() -> None:
    assert "standby" in found(gateway={"enabled": True, "epp": {"replicas": 2}})["epp-replicas-are-standby"].allowed


def test_a_benchmark_client_that_saturates_is_refused() -> None:
    problem = found(benchmark={"enabled": True, "connectionsPerClient": 4000})["client-saturates"]
    assert problem.level == "refused"
    assert "242K" in problem.why
