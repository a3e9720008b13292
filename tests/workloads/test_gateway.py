"""The Inference Gateway: what is routed, for how long, by which chart values, and what an update waits for."""

from __future__ import annotations

from functools import cache
from typing import Any

import pulumi
import pytest

from fleet.preview.record import synthesis
from fleet.preview.record.recorder import Mode, ProgramError, RecordedResource, Recording
from fleet.preview.record.recorder import record as record_program
from fleet.preview.record.values import UNKNOWN
from settings.stack import Settings
from tests.support.recorded import ROOT, manifest, needs, objects, recorded_component
from tests.support.schemas import problems
from tests.support.settings import make_config
from tests.workloads.args import NAMESPACE, gateway_args, server_args
from workloads.gateway.gateway import Gateway
from workloads.server.server import Server

POOL = "qwen35-pool"


def build(settings: Settings, opts: pulumi.ResourceOptions) -> object:
    server = Server("server", server_args(settings), opts)
    gateway = Gateway("gateway", gateway_args(settings, server), opts)
    pulumi.export("endpoint", gateway.endpoint)
    return gateway


def record(mode: Mode = "known", *, gateway: dict[str, Any] | None = None, **sections: Any) -> Recording:
    return recorded_component(
        build,
        mode,
        **{"server": {"replicas": 1}, "weights": {"source": "huggingface"}, **sections},
        gateway={"enabled": True, **(gateway or {})},
    )


def made(key: str, **sections: Any) -> dict[str, Any]:
    return manifest(objects(record(**sections))[key])


def release(recording: Recording) -> RecordedResource:
    (found,) = (one for one in recording.resources if one.type.endswith(":Release"))
    return found


@pytest.mark.parametrize("mode", ["preview", "known"])
@pytest.mark.parametrize("sections", [{}, {"server": {"replicas": 1, "apiKeySecret": "k"}}], ids=["open", "key"])
def test_every_object_would_be_accepted(mode: Mode, sections: dict[str, Any]) -> None:
    recording = record(mode, **sections)
    found = {key: problems(manifest(one)) for key, one in objects(recording).items()}
    assert {key: said for key, said in found.items() if said} == {}
    assert recording.diagnostics == ()


def test_the_endpoint_is_the_load_balancers_address_once_there_is_one() -> None:
    assert record("preview").outputs["endpoint"] is UNKNOWN
    assert str(record("known").outputs["endpoint"]).startswith("http://203.0.113.")


def up(monkeypatch: pytest.MonkeyPatch, status: Any) -> None:
    """A Gateway that is up already, with this status."""
    answered = synthesis.outputs_of

    def outputs_of(type_: str, *arguments: Any) -> tuple[str, dict[str, Any]]:
        id_, outputs = answered(type_, *arguments)
        return id_, outputs | ({"status": status} if type_.endswith(":Gateway") else {})

    monkeypatch.setattr(synthesis, "outputs_of", outputs_of)


NOT_PROGRAMMED = {"conditions": [{"type": "Programmed", "status": "Unknown"}]}


@pytest.mark.parametrize("status", [NOT_PROGRAMMED, NOT_PROGRAMMED | {"addresses": []}, None])
def test_a_gateway_whose_wait_timed_out_has_an_unknown_address_in_the_previews_that_follow(
    monkeypatch: pytest.MonkeyPatch, status: Any
) -> None:
    up(monkeypatch, status)
    monkeypatch.setattr(pulumi.runtime, "is_dry_run", lambda: True)
    again = record()
    assert again.outputs["endpoint"] is UNKNOWN
    assert objects(again)["Gateway/inference-gateway"].outputs["status"] == status


def test_a_gateway_that_nothing_waited_for_and_that_has_no_address_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    up(monkeypatch, NOT_PROGRAMMED)
    with pytest.raises(ProgramError, match=r"Gateway inference-gateway has no address.*pulumi refresh"):
        record()


def test_the_gateway_is_waited_for_because_it_fails_in_silence() -> None:
    gateway = objects(record())["Gateway/inference-gateway"]
    assert gateway.inputs["metadata"]["annotations"] == {"pulumi.com/waitFor": "condition=Programmed"}


HOST = {"hostname": "llm.acme.dev", "tls": {"certificate": "llm"}, "address": "door"}


def test_a_host_name_has_an_https_listener_with_its_certificate_at_its_address() -> None:
    recording = record(gateway=HOST)
    spec = manifest(objects(recording)["Gateway/inference-gateway"])["spec"]
    _, secure = spec["listeners"]
    assert secure["tls"] == {"mode": "Terminate", "options": {"networking.gke.io/cert-manager-certs": "llm"}}
    assert spec["addresses"] == [{"type": "NamedAddress", "value": "door"}]
    assert recording.outputs["endpoint"] == "https://llm.acme.dev"
    found = {key: problems(manifest(one)) for key, one in objects(recording).items()}
    assert {key: said for key, said in found.items() if said} == {}


def test_an_address_without_a_host_name_is_kept() -> None:
    spec = made("Gateway/inference-gateway", gateway={"address": "door"})["spec"]
    assert [one["name"] for one in spec["listeners"]] == ["http"]
    assert spec["addresses"] == [{"type": "NamedAddress", "value": "door"}]


def test_with_a_key_only_the_paths_that_vllm_guards_are_routed() -> None:
    (rule,) = made(f"HTTPRoute/{POOL}", server={"replicas": 1, "apiKeySecret": "k"})["spec"]["rules"]
    assert rule["matches"] == [{"path": {"type": "PathPrefix", "value": "/v1"}}]


def test_the_route_comes_after_its_pool_and_waits_until_it_is_found() -> None:
    recording = record()
    route = objects(recording)[f"HTTPRoute/{POOL}"]
    assert "Gateway/inference-gateway" in needs(recording, route)
    assert release(recording).urn in route.dependencies
    assert "ResolvedRefs" in route.inputs["metadata"]["annotations"]["pulumi.com/waitFor"]


def test_the_release_is_the_pool_and_has_a_timeout_of_its_own() -> None:
    found = release(record())
    inputs = found.inputs
    assert (inputs["timeout"], found.custom_timeouts) == (900, {}), "the provider gives a release its own timeout alone"
    assert (inputs["name"], inputs["namespace"]) == (POOL, NAMESPACE)


@pytest.mark.parametrize(("replicas", "skipped"), [(1, False), (2, True), (3, True)])
def test_only_a_standby_that_is_never_ready_is_not_waited_for(replicas: int, skipped: bool) -> None:
    inputs = release(record(gateway={"epp": {"replicas": replicas}})).inputs
    assert inputs["skipAwait"] is skipped
    assert inputs["values"]["inferenceExtension"]["replicas"] == replicas


def test_the_policies_wait_for_the_pool_they_are_attached_to() -> None:
    recording = record()
    for kind in ("HealthCheckPolicy", "GCPBackendPolicy"):
        assert release(recording).urn in objects(recording)[f"{kind}/{POOL}"].dependencies


@cache
def with_canary(weight: int | None) -> dict[str, RecordedResource]:
    canary = {"engine": {"seed": 1}} | ({} if weight is None else {"weight": weight})
    config = make_config(gateway={"enabled": True}, rollout=canary)
    return objects(
        record_program(ROOT, project="vllm-fleet", stack="test", config=config, secret_keys=(), mode="known")
    )


@pytest.mark.parametrize(("weight", "shares"), [(None, [None]), (0, [100, 0]), (5, [95, 5])])
def test_a_canary_gets_its_share_of_the_users_and_nothing_in_an_offline_trial(
    weight: int | None, shares: list[int | None]
) -> None:
    (rule,) = manifest(with_canary(weight)[f"HTTPRoute/{POOL}"])["spec"]["rules"]
    names = [POOL, f"{POOL}-canary"][: len(shares)]
    assert [(one["name"], one.get("weight")) for one in rule["backendRefs"]] == list(zip(names, shares, strict=True))


def test_a_canary_among_users_has_all_that_a_backend_needs_and_changes_nothing_of_the_servers() -> None:
    trial, among = with_canary(None), with_canary(5)
    more = {key for key in among.keys() - trial.keys() if not key.startswith("NetworkPolicy/")}
    canary = f"{POOL}-canary"
    assert {f"{kind}/{canary}" for kind in ("HealthCheckPolicy", "GCPBackendPolicy")} <= more
    assert {key: problems(manifest(among[key])) for key in more if problems(manifest(among[key]))} == {}
    changed = {key for key in trial.keys() & among.keys() if trial[key].inputs != among[key].inputs}
    servers, tried = (
        manifest(among[f"Deployment/qwen35-server{ending}"])["spec"]["template"]["spec"]["containers"][0]["env"]
        for ending in ("", "-canary")
    )
    kept = [one for one in servers if one["name"] == "VLLM_HTTP_TIMEOUT_KEEP_ALIVE"]
    assert kept
    assert kept[0] in tried
    assert changed == {f"HTTPRoute/{POOL}", "NetworkPolicy/canary"}
    for kind in ("HealthCheckPolicy", "GCPBackendPolicy"):
        policies = [manifest(among[f"{kind}/{name}"])["spec"] for name in (POOL, canary)]
        assert [policy["targetRef"]["name"] for policy in policies] == [POOL, canary]
        assert policies[0]["default"] == policies[1]["default"]


def test_a_canary_gets_users_only_once_it_is_ready() -> None:
    among = with_canary(5)
    [deployment] = [one for key, one in among.items() if key.startswith("Deployment/") and key.endswith("-canary")]
    assert deployment.urn in among[f"HTTPRoute/{POOL}"].dependencies
