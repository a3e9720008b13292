"""What `server.prefillNodes` needs, and what follows from it."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from facts.gke_releases import has_rdma_claims
from settings.derived.figures import fleet_shape
from settings.derived.quota_needs import quota_needs
from settings.load import check
from tests.support.rows import each_row
from tests.support.settings import PREFILL_NODES, make_settings

SERVER: dict[str, Any] = PREFILL_NODES["server"]


def found(**sections: Any) -> set[str]:
    return {problem.id for problem in check(make_settings(**{**PREFILL_NODES, **sections})) if problem.blocks}


def server(**changes: Any) -> dict[str, Any]:
    """With these keys; None removes one."""
    return {"server": {name: value for name, value in {**SERVER, **changes}.items() if value is not None}}


def engine(**changes: Any) -> dict[str, Any]:
    return server(engine={"version": "0.33.0", **changes})


@each_row(
    ("sections", "id_"),
    [
        (
            server(prefillNodes=None) | {"endpoint": {**PREFILL_NODES["endpoint"], "kind": "prefillApart"}},
            "router-without-prefill",
        ),
        ({"endpoint": {"kind": "leastRequest"}}, "prefill-without-router"),
        ({"endpoint": {"kind": "clusterIp"}}, "prefill-without-router"),
        ({"endpoint": {}}, "router-image"),
        ({"machine": "a3-highgpu-8g", "region": "us-central1", "zones": ["us-central1-a"]}, "prefill-machine"),
        ({"capacity": {"mode": "spot"}}, "prefill-capacity"),
        ({"zones": ["europe-west4-a", "europe-west4-b"]}, "prefill-zones"),
        ({"cluster": {}}, "prefill-gke"),
        ({"cluster": {"minVersion": "1.35.2-gke.1841000"}}, "prefill-gke"),
        (server(engine={}, profile="record"), "prefill-release"),
        (engine(extraArgs=['--kv-transfer-config={"kv_connector":"NixlConnector"}']), "prefill-set-twice"),
        (engine(extraEnv={"VLLM_SSM_CONV_STATE_LAYOUT": "DS"}), "prefill-set-twice"),
        (server(name="s" * 33), "name-too-long-for-prefill"),
        (server(replicas="external"), "prefill-with-scaling"),
        (server(scaling={"mode": "load", "max": 4}), "prefill-with-scaling"),
        ({"rollout": {"canary": {"engine": {"seed": 1}}}}, "prefill-with-canary"),
        (server(rankPorts=True), "prefill-with-rank-ports"),
        (server(compileCache={"enabled": True}), "prefill-with-compile-cache"),
        (server(internalLoadBalancer=True), "load-balancer-bypasses-router"),
    ],
)
def test_what_cannot_work_is_refused(sections: dict[str, Any], id_: str) -> None:
    assert id_ in found(**sections)


@each_row(
    "sections",
    [
        {},
        {"machine": "a3-ultragpu-8g", "region": "europe-west1", "zones": ["europe-west1-b"]},
        {"endpoint": {**PREFILL_NODES["endpoint"], "kind": "prefillApart"}},
        {"gateway": {"enabled": True}},
        {"cluster": {"minVersion": "1.36.0-gke.1"}},
        server(apiKeySecret="key"),
        server(replicas=0),
    ],
)
def test_what_works_is_accepted(sections: dict[str, Any]) -> None:
    assert found(**sections) == set()


@each_row(
    ("sections", "said"),
    [
        (server(engine={}, profile="record"), ["prefill-release"]),
        (engine(version="0.18.0", useDeepGemm=False), ["prefill-release"]),
        (server(rankPorts=True), ["prefill-with-rank-ports"]),
    ],
)
def test_one_cause_has_one_fix(sections: dict[str, Any], said: list[str]) -> None:
    assert [one.id for one in check(make_settings(**{**PREFILL_NODES, **sections})) if one.blocks] == said


def test_an_old_release_is_said_of_the_key_that_the_user_wrote() -> None:
    of_a_profile, own = (
        next(one for one in check(make_settings(**{**PREFILL_NODES, **sections})) if one.id == "prefill-release")
        for sections in (server(engine={}, profile="record"), engine(version="0.18.0"))
    )
    assert of_a_profile.subject.endswith("server.prefillNodes")
    assert "profile: tuned" in str(of_a_profile.write)
    assert (own.subject, own.write) == ("vllm-fleet:server.engine.version", "version: 0.33.0")


def test_what_a_router_without_prefill_is_told_to_write_brings_no_warning() -> None:
    alone = server(prefillNodes=None) | {"endpoint": {**PREFILL_NODES["endpoint"], "kind": "prefillApart"}}
    [told] = [one for one in check(make_settings(**{**PREFILL_NODES, **alone})) if one.id == "router-without-prefill"]
    written = yaml.safe_load(str(told.write).partition(", or ")[0])["server"]
    assert "prefill-alone" not in {one.id for one in check(make_settings(**{**PREFILL_NODES, **server(**written)}))}


def test_the_only_prefill_node_is_a_single_point_of_failure() -> None:
    def warned(**sections: Any) -> list[str]:
        found = check(make_settings(**{**PREFILL_NODES, **sections}))
        return [str(one.why) for one in found if one.id == "prefill-alone"]

    (why,) = warned()
    assert "Spot" in why
    reserved = {**PREFILL_NODES["capacity"], "reservation": {"name": "r1"}, "spot": False}
    (why,) = warned(capacity=reserved)
    assert "Spot" not in why
    assert not warned(**server(prefillNodes=2))
    assert not warned(**server(replicas=0))


def test_the_version_of_a_cluster_of_another_stack_is_not_known() -> None:
    guest = {"cluster": None, "platform": {"stack": "organization/vllm-fleet/prod"}}
    said = {one.id: one for one in check(make_settings(**{**PREFILL_NODES, **guest}))}
    assert said["prefill-gke-of-another"].severity == "note"
    assert "1.35.2-gke.1842000" in str(said["prefill-gke-of-another"].write)
    assert "prefill-gke-of-another" not in {one.id for one in check(make_settings(**PREFILL_NODES))}


def test_what_no_cloud_has_shown_is_said() -> None:
    said = {problem.id: problem.severity for problem in check(make_settings(**PREFILL_NODES))}
    assert (said["prefill-not-tried"], said["prefill-with-drafts"]) == ("note", "warning")


@pytest.mark.parametrize(
    ("version", "has"), [(None, False), ("1.35.2-gke.1841999", False), ("1.35.2-gke.1842000", True), ("1.36.0", True)]
)
def test_a_cluster_has_claims_of_network_cards_from_one_version_on(version: str | None, has: bool) -> None:
    assert has_rdma_claims("RAPID", version) is has


def test_each_side_has_its_role_and_everything_else_is_equal() -> None:
    decode = make_settings(**PREFILL_NODES)
    prefill = decode.as_prefill
    assert prefill is not None
    (wanted,), (told,) = prefill.serving.engine.extra_args, decode.serving.engine.extra_args
    assert wanted == told.replace("kv_consumer", "kv_producer")
    assert '"kv_connector":"NixlConnector"' in told
    assert decode.serving.engine.but({"extraArgs": ()}) == prefill.serving.engine.but({"extraArgs": ()})
    assert decode.serving.engine.extra_env["VLLM_SSM_CONV_STATE_LAYOUT"] == "DS"
    assert (prefill.server.name, prefill.replicas) == ("qwen35-server-prefill", 1)


def test_nodes_price_and_quota_count_both_sides() -> None:
    both, decode = make_settings(**PREFILL_NODES), make_settings(**{**PREFILL_NODES, **server(prefillNodes=None)})
    assert (both.nodes, decode.nodes, both.gpu_ceiling) == (3, 2, 24)
    assert fleet_shape(both).nodes == 3
    assert {need.amount for need in quota_needs(both) if "GPU" in need.quota.title} == {24}
    paused = make_settings(**{**PREFILL_NODES, **server(replicas=0)})
    assert (paused.nodes, paused.prefill_replicas) == (0, 0)
