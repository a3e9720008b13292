"""The server's objects: who owns the replicas, how long an update may take, what waits for what, where the key goes."""

from __future__ import annotations

import json
from typing import Any

import pulumi
import pytest

from facts.lessons.words import TENSOR_PARALLEL_REASON_ANNOTATION
from fleet.preview.record.recorder import Mode, Recording
from fleet.preview.record.values import UNKNOWN, Secret
from settings.stack import Settings
from tests.support.recorded import manifest, needs, objects, recorded_component
from tests.support.rows import each_row
from tests.support.schemas import problems
from tests.workloads.args import server_args
from workloads.server.pod import API_KEY_VERSION
from workloads.server.server import Server
from workloads.weights.weights import WeightsMount

NAME = "qwen35-server"
FLEX = {"mode": "flex-start", "runDurationSeconds": 86_400}


def build(settings: Settings, opts: pulumi.ResourceOptions) -> object:
    import pulumi_kubernetes as k8s

    claim = k8s.core.v1.PersistentVolumeClaim("claim", metadata={"name": "reader"}, spec={}, opts=opts)
    weights = WeightsMount(claim_name="reader", mount_path="/weights", model_path="/weights/m", depends_on=(claim,))
    server = Server(
        "server",
        server_args(
            settings,
            weights=weights if settings.weights.source == "hyperdisk" else None,
            api_key=settings.api_key_secret or pulumi.Config().get_secret("apiKey"),
        ),
        opts,
    )
    pulumi.export("endpoint", server.endpoint)
    return server


def record(mode: Mode = "known", **sections: Any) -> Recording:
    return recorded_component(build, mode, **{"server": {"replicas": 12}, **sections})


def deployment(**sections: Any) -> Any:
    return objects(record(**sections))[f"Deployment/{NAME}"]


@each_row("mode", ["preview", "known"])
@each_row(
    "sections",
    [
        {},
        {"server": {"replicas": 0}},
        {"server": {"replicas": "external"}},
        {"server": {"replicas": 1, "internalLoadBalancer": True, "apiKeySecret": "the-key"}},
        {"apiKey": "plain-key"},
        {"weights": {"source": "huggingface"}, "server": {"replicas": 1}},
    ],
)
def test_every_object_would_be_accepted_by_kubernetes(mode: Mode, sections: dict[str, Any]) -> None:
    recording = record(mode, **sections)
    found = {
        key: problems(manifest(one)) for key, one in objects(recording).items() if key != "PersistentVolumeClaim/reader"
    }
    assert {key: said for key, said in found.items() if said} == {}
    assert recording.diagnostics == ()


def test_selector_and_pod_labels_agree_under_another_name() -> None:
    found = objects(record(server={"name": "qwen35-code", "replicas": 1}))
    spec = manifest(found["Deployment/qwen35-code"])["spec"]
    assert spec["selector"]["matchLabels"].items() <= spec["template"]["metadata"]["labels"].items()
    assert (
        manifest(found["Service/qwen35-code"])["spec"]["selector"].items()
        <= spec["template"]["metadata"]["labels"].items()
    )


def test_a_reason_is_on_the_deployment_and_restarts_no_pod() -> None:
    given = {"replicas": 1, "tensorParallelReason": "users wait for single answers"}
    without, with_one = (manifest(deployment(server=server)) for server in ({"replicas": 1}, given))
    stated = with_one["metadata"]["annotations"].pop(TENSOR_PARALLEL_REASON_ANNOTATION)
    assert stated == "users wait for single answers"
    assert with_one == without


@pytest.mark.parametrize(("replicas", "ignored"), [(0, ()), ("external", ("spec.replicas",))])
def test_a_number_is_owned_here_none_too_and_another_owners_is_neither_set_nor_reset(
    replicas: int | str, ignored: tuple[str, ...]
) -> None:
    found = deployment(server={"replicas": replicas})
    assert manifest(found)["spec"].get("replicas", "external") == replicas
    assert found.ignore_changes == ignored


@each_row(
    ("server", "capacity", "minutes"),
    [
        # One replica's limit: ten minutes of grace, 15 for a node, 30 to start.
        ({"replicas": 1}, {}, 55),
        ({"replicas": 2}, {}, 55),
        # All replicas in turn, each with two minutes of drain, 44 s until the quota is asked again, and a likely start.
        ({"replicas": 12}, {}, 260),
        ({"replicas": "external"}, {}, 235),
        ({"scaling": {"mode": "load", "max": 8}}, {}, 167),
        ({"replicas": 0, "scaling": {"mode": "load", "max": 8}}, {}, 157),
        # 15 more for a node at flex-start.
        ({"replicas": 1}, FLEX, 70),
    ],
)
def test_an_update_is_given_the_likely_time_of_all_replicas_and_no_less_than_the_limit_of_one(
    server: dict[str, Any], capacity: dict[str, Any], minutes: int
) -> None:
    found = deployment(server=server, **({"capacity": capacity} if capacity else {})).custom_timeouts
    assert found["update"] == f"{minutes}m"


@each_row(
    ("capacity", "minutes"),
    [
        ({"mode": "spot"}, 15),
        ({"mode": "compute-class", "flexStartSeconds": None}, 15),
        # The autoscaler waits at flex-start for 15 more.
        ({"mode": "compute-class"}, 30),
        (FLEX, 30),
    ],
)
def test_kubernetes_and_pulumi_allow_a_node_and_a_start_before_they_call_a_rollout_stuck(
    capacity: dict[str, Any], minutes: int
) -> None:
    found = deployment(server={"replicas": 1, "startupMinutes": 20}, capacity=capacity)
    assert found.custom_timeouts["create"] == f"{minutes + 20}m"
    assert manifest(found)["spec"]["progressDeadlineSeconds"] == 600 + (minutes + 20) * 60


def test_the_service_waits_for_no_pod_and_the_deployment_does() -> None:
    found = objects(record())
    assert found[f"Service/{NAME}"].inputs["metadata"]["annotations"]["pulumi.com/skipAwait"] == "true"
    assert "pulumi.com/skipAwait" not in found[f"Deployment/{NAME}"].inputs["metadata"]["annotations"]


def test_pods_come_after_the_weights() -> None:
    recording = record()
    assert "PersistentVolumeClaim/reader" in needs(recording, objects(recording)[f"Deployment/{NAME}"])


def test_an_internal_load_balancer_is_an_option_beside_the_service() -> None:
    assert f"Service/{NAME}-internal" not in objects(record())
    found = objects(record(server={"replicas": 1, "internalLoadBalancer": True}))
    balancer = manifest(found[f"Service/{NAME}-internal"])
    assert balancer["metadata"]["annotations"]["networking.gke.io/load-balancer-type"] == "Internal"
    assert balancer["spec"]["type"] == "LoadBalancer"
    assert manifest(found[f"Service/{NAME}"])["spec"]["type"] == "ClusterIP"


@pytest.mark.parametrize("mode", ["preview", "known"])
def test_the_stacks_key_is_in_one_secret_and_nowhere_in_plain_sight(mode: Mode) -> None:
    recording = record(mode, apiKey="plain-key")
    found = objects(recording)
    assert isinstance(found["Secret/vllm-api-key"].inputs["stringData"], Secret)
    assert manifest(found["Secret/vllm-api-key"])["stringData"] == {"key": "plain-key"}
    assert "plain-key" not in repr(recording.resources)
    assert "Secret/vllm-api-key" in needs(recording, found[f"Deployment/{NAME}"])


def versions(mode: Mode = "known", **sections: Any) -> dict[str, Any]:
    """What the pods say of the secrets that they read."""
    spec = manifest(objects(record(mode, **sections))[f"Deployment/{NAME}"])["spec"]
    return {
        key: value for key, value in spec["template"]["metadata"]["annotations"].items() if key.endswith("-version")
    }


def test_another_key_makes_other_pods_and_nothing_of_it_is_in_their_template() -> None:
    uid = objects(record(apiKey="plain-key"))["Secret/vllm-api-key"].outputs["metadata"]["uid"]
    assert versions(apiKey="plain-key") == {API_KEY_VERSION: uid}
    # The API server draws the uid of the new Secret; here the same one stands in, whatever the key.
    assert versions(apiKey="another-key") == {API_KEY_VERSION: uid}
    planned = objects(record("preview", apiKey="plain-key"))[f"Deployment/{NAME}"].inputs["spec"]["template"]
    assert planned["metadata"]["annotations"][API_KEY_VERSION] is UNKNOWN


@pytest.mark.parametrize(
    ("secret", "version", "annotated"),
    [("the-key", "latest", {}), ({"name": "the-key", "version": 3}, "3", {API_KEY_VERSION: "3"})],
)
def test_a_key_of_secret_manager_is_fetched_by_gkes_driver_and_a_named_version_makes_other_pods(
    secret: Any, version: str, annotated: dict[str, str]
) -> None:
    server = {"replicas": 1, "apiKeySecret": secret}
    recording = record(server=server)
    found = objects(recording)
    spec = manifest(found["SecretProviderClass/vllm-api-key"])["spec"]
    assert spec["provider"] == "gke"
    (stored,) = json.loads(spec["parameters"]["secrets"])
    assert stored["resourceName"] == f"projects/fleet-tests/secrets/the-key/versions/{version}"
    assert stored["path"]
    assert "Secret/vllm-api-key" not in found
    assert "SecretProviderClass/vllm-api-key" in needs(recording, found[f"Deployment/{NAME}"])
    assert versions(server=server) == annotated
    assert versions() == {}
