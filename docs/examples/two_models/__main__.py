"""Two models on one cluster, each in its own namespace, without a vllm-fleet stack file."""

from __future__ import annotations

import pulumi
import pulumi_kubernetes as k8s

from facts.machines import find
from settings.derived.traffic import Traffic
from settings.profiles import profile
from settings.sections.capacity import Reservation, placement
from settings.sections.model import Model
from workloads.namespace import Namespace, NamespaceArgs
from workloads.server.server import Server, ServerArgs
from workloads.space import Space
from workloads.weights.weights import Weights, WeightsArgs

cluster = k8s.Provider("cluster", kubeconfig=pulumi.Config().require_secret("kubeconfig"))
on_cluster = pulumi.ResourceOptions(providers={"kubernetes": cluster})
nodes = Reservation(mode="reservation", name="b200-block")
model = Model(id="Qwen/Qwen3.5-27B-FP8", revision="2e1b21350ce589fcaafbb3c7d7eac526a7aed582", size_gb=29.0)


def serve(name: str, *, profile_name: str, replicas: int) -> Server:
    """One model with its own volume; every name on the cluster begins with `name`."""
    serving = profile(profile_name)
    namespace = Namespace(
        f"{name}-namespace",
        NamespaceArgs(name=name, traffic=Traffic(server=name, monitoring=False), gpus=8 * replicas),
        on_cluster,
    )
    space = Space(namespace=namespace.name)
    guarded = pulumi.ResourceOptions(providers={"kubernetes": cluster}, depends_on=[namespace])
    weights = Weights(
        f"{name}-weights",
        WeightsArgs(space=space, model=model, zones=("europe-west4-b",), class_prefix=name),
        guarded,
    )
    return Server(
        f"{name}-server",
        ServerArgs(
            space=space,
            name=name,
            replicas=replicas,
            engine=serving.engine,
            model=model,
            placement=placement(nodes, namespace=name, machine=find("a4-highgpu-8g")),
            weights=weights.mount,
            annotations={
                "vllm-fleet.dev/context-tokens": str(serving.context_tokens),
                "vllm-fleet.dev/concurrency-per-replica": str(serving.concurrency_per_replica),
            },
        ),
        guarded,
    )


pulumi.export("chat", serve("chat", profile_name="serve-chat", replicas=2).endpoint)
pulumi.export("code", serve("code", profile_name="serve-code", replicas=1).endpoint)
