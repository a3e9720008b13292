from __future__ import annotations

from typing import Any

import pytest

from preview.recording import RecordedResource
from rehearsal.api import Manifest
from rehearsal.results import RehearsalError
from rehearsal.simulation.chart import chart_objects
from rehearsal.simulation.chart_values import CHART, VERSION
from tests.support.settings import make_settings
from workloads import names
from workloads.gateway_values import chart_values

POOL = {"modelServers": {"matchLabels": {"app": "qwen35-server"}}}


def release(values: dict[str, Any] | None = None, **inputs: Any) -> RecordedResource:
    given = {
        "name": "qwen35-pool",
        "namespace": "vllm",
        "chart": CHART,
        "version": VERSION,
        "values": {"inferencePool": POOL, **(values or {})},
        **inputs,
    }
    return RecordedResource(urn="urn", type="kubernetes:helm.sh/v3:Release", name="gateway-pool", inputs=given)


def by_kind(objects: list[Manifest], kind: str) -> list[Manifest]:
    return [one for one in objects if one["kind"] == kind]


def epp(values: dict[str, Any]) -> Manifest:
    (deployment,) = by_kind(chart_objects(release({"inferenceExtension": values})), "Deployment")
    return deployment


def container(values: dict[str, Any]) -> Manifest:
    (only,) = epp(values)["spec"]["template"]["spec"]["containers"]
    found: Manifest = only
    return found


def test_the_programs_own_values_make_one_picker_its_rights_and_the_pool() -> None:
    settings = make_settings("gateway")
    objects = chart_objects(release(chart_values(settings.server.name, settings.gateway.epp).rendered()))
    assert sorted((one["kind"], one["metadata"]["name"]) for one in objects) == [
        ("ConfigMap", "qwen35-pool-epp"),
        ("Deployment", "qwen35-pool-epp"),
        ("InferencePool", "qwen35-pool"),
        ("Role", "qwen35-pool-epp-non-sa"),
        ("Role", "qwen35-pool-epp-sa"),
        ("RoleBinding", "qwen35-pool-epp-non-sa"),
        ("RoleBinding", "qwen35-pool-epp-sa"),
        ("Service", "qwen35-pool-epp"),
        ("ServiceAccount", "qwen35-pool-epp"),
    ]
    assert {one["metadata"]["namespace"] for one in objects} == {"vllm"}
    (deployment,) = by_kind(objects, "Deployment")
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    assert names.epp_selector("qwen35-pool").items() <= labels.items()
    (pod,) = deployment["spec"]["template"]["spec"]["containers"]
    assert pod["resources"]["limits"] == pod["resources"]["requests"]
    assert "--metrics-endpoint-auth=false" in pod["args"]
    (pool,) = by_kind(objects, "InferencePool")
    assert pool["spec"] == {
        "targetPorts": [{"number": 8000}],
        "selector": {"matchLabels": {"app": "qwen35-server"}},
        "endpointPickerRef": {"name": "qwen35-pool-epp", "port": {"number": 9002}, "failureMode": "FailOpen"},
    }


def test_one_picker_is_probed_by_its_own_service_and_replaced_whole() -> None:
    spec = epp({})["spec"]
    assert (spec["replicas"], spec["strategy"]) == (1, {"type": "Recreate"})
    assert spec["template"]["spec"]["terminationGracePeriodSeconds"] == 130
    assert container({})["readinessProbe"]["grpc"] == {"port": 9003, "service": "inference-extension"}
    assert "--ha-enable-leader-election" not in container({})["args"]


def test_two_pickers_elect_a_leader_and_the_standby_is_not_ready_by_design() -> None:
    objects = chart_objects(release({"inferenceExtension": {"replicas": 2}}))
    (deployment,) = by_kind(objects, "Deployment")
    (pod,) = deployment["spec"]["template"]["spec"]["containers"]
    assert "--ha-enable-leader-election" in pod["args"]
    assert pod["readinessProbe"]["grpc"]["service"] == "readiness"
    assert pod["livenessProbe"]["grpc"]["service"] == "liveness"
    (lease,) = [one for one in by_kind(objects, "Role") if one["metadata"]["name"].endswith("leader-election")]
    assert lease["rules"][0]["resources"] == ["leases"]
    assert "qwen35-pool-epp-leader-election-binding" in {one["metadata"]["name"] for one in objects}


def test_flags_become_pairs_of_arguments_in_order() -> None:
    args = container({"flags": {"v": 3, "secure-serving": True, "a-flag": "x"}})["args"]
    start = args.index("--a-flag")
    assert args[start : start + 6] == ["--a-flag", "x", "--secure-serving", "true", "--v", "3"]


def test_values_are_merged_into_the_defaults_key_by_key_as_helm_does() -> None:
    assert container({"resources": {"limits": {"cpu": "10"}}})["resources"] == {
        "requests": {"cpu": "4", "memory": "8Gi"},
        "limits": {"cpu": "10", "memory": "16Gi"},
    }
    assert "resources" not in container({"resources": None})


def test_affinity_and_tolerations_reach_the_pod() -> None:
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}}}
    pod = epp({"affinity": affinity, "tolerations": [{"operator": "Exists"}]})["spec"]["template"]["spec"]
    assert (pod["affinity"], pod["tolerations"]) == (affinity, [{"operator": "Exists"}])


def test_a_long_release_name_is_cut_where_the_program_expects_it() -> None:
    long = "a" * 60
    (service,) = by_kind(chart_objects(release(name=long)), "Service")
    assert service["metadata"]["name"] == names.epp_name(long)


def test_provider_gke_brings_the_two_policies_that_would_clash_with_the_programs_own() -> None:
    objects = chart_objects(release({"provider": {"name": "gke"}}))
    kinds = {one["kind"]: one for one in objects}
    assert kinds["GCPBackendPolicy"]["spec"]["default"]["timeoutSec"] == 300
    assert kinds["HealthCheckPolicy"]["spec"]["targetRef"]["name"] == "qwen35-pool"


def test_prometheus_off_gke_is_a_service_monitor() -> None:
    values = {"inferenceExtension": {"monitoring": {"prometheus": {"enabled": True}}}}
    kinds = {one["kind"] for one in chart_objects(release(values))}
    assert {"ServiceMonitor", "Secret", "ClusterRole", "ClusterRoleBinding"} <= kinds


@pytest.mark.parametrize(
    ("values", "key"),
    [
        ({"inferenceExtension": {"nodeSelector": {"a": "b"}}}, "inferenceExtension.nodeSelector"),
        ({"inferencePool": {**POOL, "targetPort": 8000}}, "inferencePool.targetPort"),
        ({"inferenceExtension": {"monitoring": {"gke": {"enabled": True}}}}, "inferenceExtension.monitoring.gke"),
        ({"router": {}}, "router"),
    ],
)
def test_a_key_that_the_chart_does_not_read_is_an_error_with_its_path(values: dict[str, Any], key: str) -> None:
    with pytest.raises(RehearsalError, match=f"reads no value {key}: Helm would take it without a word"):
        chart_objects(release(values))


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"inferenceExtension": {"sidecar": {"enabled": True, "name": "x"}}}, "sidecar.enabled: true"),
        ({"inferenceExtension": {"latencyPredictor": {"enabled": True}}}, "latencyPredictor.enabled: true"),
        ({"inferenceExtension": {"extraContainerPorts": [{"containerPort": 1}]}}, "extraContainerPorts"),
        ({"provider": {"name": "istio"}}, "provider.name: istio"),
        ({"experimentalHttpRoute": {"enabled": True}}, "experimentalHttpRoute.enabled"),
        ({"inferencePool": {"modelServers": {"matchLabels": {}}}}, "which pods form the pool"),
    ],
)
def test_what_the_stand_in_does_not_play_is_said(values: dict[str, Any], says: str) -> None:
    with pytest.raises(RehearsalError, match=says):
        chart_objects(release(values))


@pytest.mark.parametrize("change", [{"version": "v1.5.0"}, {"chart": "oci://example.org/other"}])
def test_another_chart_or_version_is_not_guessed_at(change: dict[str, str]) -> None:
    with pytest.raises(RehearsalError, match="Use that version, or teach"):
        chart_objects(release(**change))
