"""Prefill and decode on nodes of their own: pods, class and routers."""

from __future__ import annotations

from typing import Any

import pulumi

from facts.judged import variable
from settings.checks.declared_server import reasons
from settings.derived.router import router_needs
from settings.stack import Settings
from tests.support.recorded import manifest, objects, recorded_component
from tests.support.schemas import problems
from tests.support.settings import PREFILL_NODES, make_settings
from tests.workloads.args import ladder_args, server_args, space
from workloads.capacity_ladder import compute_class_spec
from workloads.router.router import Router, RouterArgs
from workloads.server.server import Server

KEY = {"server": {**PREFILL_NODES["server"], "apiKeySecret": "k"}}


def build(settings: Settings, opts: pulumi.ResourceOptions) -> object:
    assert settings.as_prefill is not None
    server = Server("server", server_args(settings), opts)
    prefill = Server("server-prefill", server_args(settings.as_prefill, beside=server), opts)
    needs = router_needs(settings)
    assert needs is not None
    return Router("router", RouterArgs(space=space(settings), server=server, prefill=prefill, **needs), opts)


def rendered(**sections: Any) -> dict[tuple[str, str], dict[str, Any]]:
    chosen = {**PREFILL_NODES, "weights": {"source": "huggingface"}, **sections}
    found = [manifest(one) for one in objects(recorded_component(build, "known", **chosen)).values()]
    return {(one["kind"], one["metadata"]["name"]): one for one in found}


def pod(found: dict[tuple[str, str], dict[str, Any]], name: str) -> dict[str, Any]:
    spec: dict[str, Any] = found["Deployment", name]["spec"]["template"]["spec"]
    return spec


def test_every_object_would_be_accepted() -> None:
    found = rendered(**KEY)
    assert {key: problems(one) for key, one in found.items()} == {key: [] for key in found}


def test_each_pod_claims_the_network_cards_of_its_node() -> None:
    found = rendered()
    for name in ("qwen35-server", "qwen35-server-prefill"):
        request = {"name": "rdma", "exactly": {"deviceClassName": "mrdma.google.com", "allocationMode": "All"}}
        template = found["ResourceClaimTemplate", f"{name}-rdma"]
        assert template["spec"]["spec"]["devices"]["requests"] == [request]
        spec = pod(found, name)
        assert spec["resourceClaims"] == [{"name": "rdma", "resourceClaimTemplateName": f"{name}-rdma"}]
        (vllm,) = spec["containers"]
        assert vllm["resources"]["claims"] == [{"name": "rdma"}]
        assert vllm["resources"]["limits"]["nvidia.com/gpu"] == "8"
        # Autopilot refuses IPC_LOCK, and Pod Security every capability.
        assert vllm["securityContext"]["capabilities"] == {"drop": ["ALL"]}


def test_decode_asks_prefill_at_the_pods_address_and_the_cache_never_takes_tcp() -> None:
    (vllm,) = pod(rendered(), "qwen35-server-prefill")["containers"]
    variables = {one["name"]: one.get("value", one.get("valueFrom")) for one in vllm["env"]}
    assert variables["VLLM_NIXL_SIDE_CHANNEL_HOST"] == {"fieldRef": {"fieldPath": "status.podIP"}}
    assert "tcp" not in variables["UCX_TLS"].split(",")
    ports = [one["containerPort"] for one in vllm["ports"]]
    assert ports == [8000, *range(5600, 5608)]
    assert variables["VLLM_NIXL_SIDE_CHANNEL_PORT"] == "5600"


def test_every_variable_of_a_pod_is_judged_and_those_that_need_a_reason_have_one() -> None:
    settings = make_settings(**PREFILL_NODES)
    (vllm,) = pod(rendered(), "qwen35-server")["containers"]
    trusts = {one["name"]: variable(one["name"], one.get("value")).trust for one in vllm["env"]}
    assert not [name for name, trust in trusts.items() if trust in ("unknown", "refused")]
    assert {name for name, trust in trusts.items() if trust == "reason"} <= reasons(settings).keys()


def test_a_stack_files_own_ucx_settings_stay() -> None:
    engine = {"version": "0.33.0", "extraEnv": {"UCX_TLS": "rc_x,cuda_copy"}}
    (vllm,) = pod(rendered(server={**PREFILL_NODES["server"], "engine": engine}), "qwen35-server")["containers"]
    assert [one["value"] for one in vllm["env"] if one["name"] == "UCX_TLS"] == ["rc_x,cuda_copy"]


def test_the_class_makes_nodes_with_rdma_networks_for_these_pods_alone() -> None:
    spec = compute_class_spec(ladder_args(make_settings(**PREFILL_NODES)))
    assert spec["nodePoolConfig"] == {"dra": {"networking": {"enabled": True}}}
    assert [rung["acceleratorNetworkProfile"] for rung in spec["priorities"]] == ["auto"]
    without = {**PREFILL_NODES, "endpoint": {}, "server": {"replicas": 2}}
    spec = compute_class_spec(ladder_args(make_settings(**without)))
    assert "nodePoolConfig" not in spec
    assert "acceleratorNetworkProfile" not in spec["priorities"][0]


def test_the_router_finds_both_kinds_of_servers_and_asks_for_the_transfer() -> None:
    (router,) = pod(rendered(), "router")["initContainers"]
    words = router["command"]
    assert {"--vllm-pd-disaggregation", "--kv-connector=nixl", "--service-discovery"} <= set(words)
    assert words[words.index("--prefill-selector") + 1] == "app=qwen35-server-prefill"
    assert words[words.index("--decode-selector") + 1] == "app=qwen35-server"
    assert "--selector" not in words


def test_the_routers_check_the_key_that_the_servers_would_never_get() -> None:
    found = rendered(**KEY)
    for name in ("qwen35-server", "qwen35-server-prefill"):
        spec = pod(found, name)
        assert not [volume for volume in spec["volumes"] if "csi" in volume]
        assert "VLLM_API_KEY" not in str(spec["containers"][0]["command"])
    (haproxy,) = pod(found, "router")["containers"]
    assert [mount for mount in haproxy["volumeMounts"] if "api-key" in mount["name"]]
    (config,) = [one for (kind, name), one in found.items() if kind == "ConfigMap" and name.startswith("router-")]
    assert "401" in config["data"]["haproxy.cfg"]
    assert "acl several" in config["data"]["haproxy.cfg"]
    assert len([key for key in found if key[0] == "SecretProviderClass"]) == 1
