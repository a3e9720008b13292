from __future__ import annotations

import re
from typing import Any

import pytest

from fleet.preview.record.recording import RecordedResource, Recording
from fleet.preview.report.stack_drawing import stack_drawing
from fleet.preview.report.stack_picture import MOST_NODES, StackPicture, stack_picture
from fleet.report.svg import WIDTH, Format, text_width
from settings.derived.figures import figures
from tests.fleet.preview.sample_report import PROJECT, STACK, resource
from tests.support.settings import make_settings

CAPACITY = "cloud.google.com/"


def servers(**spec: Any) -> RecordedResource:
    container = {
        "image": "mirror/vllm/vllm-openai:v0.18.1@sha256:00",
        "args": ["/weights", "--served-model-name=Qwen/Qwen3.5-27B-FP8"],
        "resources": {"requests": {"nvidia.com/gpu": "8"}},
    }
    selector = {f"{CAPACITY}gke-accelerator": "nvidia-b200", f"{CAPACITY}gke-spot": "true"}
    pod = {"containers": [container], "nodeSelector": spec.pop("selector", selector)}
    inputs = {"metadata": {"name": "qwen35-server"}, "spec": {**spec, "template": {"spec": pod}}}
    return resource("kubernetes:apps/v1:Deployment", "server-deployment", inputs=inputs)


def service(kind: str = "ClusterIP") -> RecordedResource:
    spec = {"type": kind, "ports": [{"port": 8000}]}
    return resource(
        "kubernetes:core/v1:Service", "server-service", inputs={"metadata": {"name": "qwen35-server"}, "spec": spec}
    )


def gateway(gateway_class: str) -> RecordedResource:
    spec = {"gatewayClassName": gateway_class, "listeners": [{"port": 80}]}
    return resource(
        "kubernetes:gateway.networking.k8s.io/v1:Gateway",
        "gateway-gateway",
        inputs={"metadata": {"name": "inference-gateway"}, "spec": spec},
    )


SCALED = resource(
    "kubernetes:keda.sh/v1alpha1:ScaledObject",
    "autoscaling",
    inputs={
        "spec": {
            "scaleTargetRef": {"name": "qwen35-server"},
            "minReplicaCount": 2,
            "maxReplicaCount": 8,
            "triggers": [{"type": "prometheus"}, {"type": "cron"}],
        }
    },
)
LADDER = resource(
    "kubernetes:cloud.google.com/v1:ComputeClass",
    "ladder-class",
    inputs={
        "metadata": {"name": "ladder"},
        "spec": {
            "priorities": [
                {"gpu": {"type": "nvidia-b200"}, "reservations": {"specific": [{"name": "mine"}]}},
                {"gpu": {"type": "nvidia-b200"}, "flexStart": {"enabled": True}},
                {"gpu": {"type": "nvidia-b200"}, "spot": True},
            ]
        },
    },
)
VOLUME = (
    resource(
        "kubernetes:storage.k8s.io/v1:StorageClass",
        "weights-reader-class",
        inputs={
            "metadata": {"name": "readers"},
            "parameters": {"type": "hyperdisk-ml", "provisioned-throughput-on-create": "4800Mi"},
        },
    ),
    resource(
        "kubernetes:core/v1:PersistentVolumeClaim",
        "weights-reader",
        inputs={
            "spec": {
                "accessModes": ["ReadOnlyMany"],
                "storageClassName": "readers",
                "resources": {"requests": {"storage": "64Gi"}},
            }
        },
    ),
)
CLUSTER = resource(
    "gcp:container/cluster:Cluster", "cluster", inputs={"name": "mine", "location": "eu", "enableAutopilot": True}
)


def picture(*resources: RecordedResource, **settings: Any) -> StackPicture:
    recording = Recording(project=PROJECT, stack=STACK, mode="preview", resources=resources, outputs={}, diagnostics=())
    return stack_picture(recording, figures(make_settings(**settings)).bill)


def nodes_of(markup: str) -> tuple[int, int]:
    """Drawn nodes: those that are always there, and those that come under load."""
    return markup.count('<rect class="node"'), markup.count('<rect class="node extra"')


def test_servers_have_their_release_gpus_and_capacity() -> None:
    part = picture(servers(replicas=12)).parts["servers"]
    assert part.lines[:2] == ("12 replicas of vLLM 0.18.1", "Qwen/Qwen3.5-27B-FP8")
    assert "8 B200 each" in part.lines[2]
    assert part.lines[3] == "capacity: Spot"


def test_every_node_and_every_gpu_is_drawn() -> None:
    markup = stack_drawing(picture(servers(replicas=12)), "wide").markup()
    assert nodes_of(markup) == (12, 0)
    assert markup.count('<rect class="gpu"') == 96


def test_a_fleet_too_large_to_draw_says_how_many_more_there_are() -> None:
    markup = stack_drawing(picture(servers(replicas=1000)), "wide").markup()
    assert nodes_of(markup) == (MOST_NODES, 0)
    assert f">and {1000 - MOST_NODES} more nodes<" in markup


def test_nodes_above_the_autoscalers_minimum_are_hollow() -> None:
    drawn = picture(servers(), SCALED)
    assert drawn.parts["servers"].lines[0].startswith("2 to 8 replicas")
    assert nodes_of(stack_drawing(drawn, "narrow").markup()) == (2, 6)
    assert drawn.parts["scaler"].lines == ("2 to 8 replicas by load and time of day",)


def test_kubernetes_own_autoscaler_sets_the_nodes_too() -> None:
    metrics = [{"type": "External", "external": {"metric": {"name": "in-flight"}}}]
    spec = {"scaleTargetRef": {"name": "qwen35-server"}, "minReplicas": 1, "maxReplicas": 3, "metrics": metrics}
    scaler = resource("kubernetes:autoscaling/v2:HorizontalPodAutoscaler", "autoscaling", inputs={"spec": spec})
    drawn = picture(servers(), scaler)
    assert drawn.parts["servers"].lines[0].startswith("1 to 3 replicas")
    assert nodes_of(stack_drawing(drawn, "narrow").markup()) == (1, 2)
    assert (drawn.parts["scaler"].title, drawn.parts["scaler"].lines) == (
        "Autoscaler (HPA)",
        ("1 to 3 replicas by load",),
    )


def test_an_autoscaler_of_something_else_is_not_drawn() -> None:
    spec = {"scaleTargetRef": {"name": "web"}, "minReplicas": 1, "maxReplicas": 3}
    scaler = resource("kubernetes:autoscaling/v2:HorizontalPodAutoscaler", "autoscaling", inputs={"spec": spec})
    assert "scaler" not in picture(servers(replicas=1), scaler).parts


def test_servers_that_share_a_machine_share_its_node() -> None:
    selector = {f"{CAPACITY}gke-accelerator": "nvidia-b200", f"{CAPACITY}gke-accelerator-count": "16"}
    drawn = picture(servers(replicas=4, selector=selector))
    assert [(nodes.count, nodes.gpus) for nodes in drawn.parts["servers"].nodes] == [(2, 16)]


def test_a_paused_fleet_has_no_node() -> None:
    drawn = picture(servers(replicas=0))
    assert drawn.parts["servers"].lines[0].startswith("0 replicas")
    assert nodes_of(stack_drawing(drawn, "wide").markup()) == (0, 0)


def test_a_ladder_names_its_rungs_and_its_gpu() -> None:
    lines = picture(servers(replicas=1, selector={f"{CAPACITY}compute-class": "ladder"}), LADDER).parts["servers"].lines
    assert "8 B200 each" in lines[2]
    assert lines[3] == "capacity: reservation mine, then flex-start, then Spot"


@pytest.mark.parametrize(
    ("door", "where", "outside"),
    [
        (service(), "pods of the cluster", False),
        (service("LoadBalancer"), "in the VPC network", True),
        (gateway("gke-l7-rilb"), "in the VPC network", True),
        (gateway("gke-l7-regional-external-managed"), "on the internet", True),
    ],
)
def test_the_door_says_where_clients_stand(door: RecordedResource, where: str, outside: bool) -> None:
    drawn = picture(door, servers(replicas=1))
    assert drawn.parts["clients"].lines == (where,)
    assert drawn.asked_from_outside is outside


def test_a_gateway_is_the_door_even_with_a_service_behind_it() -> None:
    assert picture(service(), gateway("gke-l7-rilb")).parts["door"].title == "Gateway inference-gateway:80"


def test_weights_have_the_size_and_throughput_of_their_class() -> None:
    assert picture(*VOLUME).parts["weights"].lines[0] == "64 GiB hyperdisk-ml, 4,800 MiB/s"


def test_the_frame_names_the_cluster_or_whose_it_is() -> None:
    own = picture(CLUSTER)
    reference = resource("pulumi:pulumi:StackReference", "platform", inputs={"name": "organization/vllm-fleet/base"})
    others = picture(reference)
    assert (own.owns_cluster, own.cluster.title) == (True, "GKE Autopilot cluster mine in eu")
    assert (others.owns_cluster, others.cluster.title) == (False, "Cluster of stack base")
    assert 'class="frame foreign"' in stack_drawing(others, "wide").markup()


def test_prices_of_the_parts_add_up_to_the_bill() -> None:
    bill = figures(make_settings()).bill
    drawn = picture(CLUSTER, servers(replicas=12), *VOLUME, service())
    known = [
        float(one) for part in (drawn.cluster, *drawn.parts.values()) for one in re.findall(r"\$([\d.]+)", part.price)
    ]
    assert sum(known) == pytest.approx(bill.usd_per_hour_known, abs=0.01)


def test_parts_that_the_stack_does_not_have_are_left_out() -> None:
    assert set(picture(service(), servers(replicas=1)).parts) == {"clients", "door", "servers"}
    assert set(picture().parts) == {"clients"}


@pytest.mark.parametrize("format_", ["wide", "narrow"])
@pytest.mark.parametrize("door", [service(), gateway("gke-l7-rilb")])
def test_boxes_stand_apart_and_hold_their_words(format_: Format, door: RecordedResource) -> None:
    everything = picture(CLUSTER, door, servers(), SCALED, LADDER, *VOLUME)
    markup = stack_drawing(everything, format_).markup()
    cards = [
        tuple(map(float, one))
        for one in re.findall(r'"card" x="([\d.]+)" y="([\d.]+)" width="([\d.]+)" height="([\d.]+)"', markup)
    ]
    assert len(cards) == len(everything.parts)
    for index, (x, y, width, height) in enumerate(cards):
        assert x + width <= WIDTH[format_]
        for other_x, other_y, other_width, other_height in cards[index + 1 :]:
            apart = (
                x + width <= other_x
                or other_x + other_width <= x
                or y + height <= other_y
                or other_y + other_height <= y
            )
            assert apart
    for x, y, words in re.findall(r'<text[^>]* x="([\d.]+)" y="([\d.]+)"[^>]*>([^<]*)</text>', markup):
        inside = [
            card for card in cards if card[0] < float(x) < card[0] + card[2] and card[1] < float(y) < card[1] + card[3]
        ]
        right = inside[0][0] + inside[0][2] if inside else WIDTH[format_]
        assert float(x) + text_width(words) <= right
