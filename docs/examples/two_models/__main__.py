"""Two models on one cluster, each in its own namespace, without a vllm-fleet stack file."""

from __future__ import annotations

import pulumi
import pulumi_kubernetes as k8s

from facts.machines import find
from settings.derived.traffic import Traffic
from settings.profiles import profile
from settings.sections.capacity import Reservation, placement
from settings.sections.model import Model
from settings.sections.server import Image, Resources
from workloads.namespace import Namespace, NamespaceArgs
from workloads.network_policies import NetworkPolicies, NetworkPoliciesArgs
from workloads.server.server import Server, ServerArgs
from workloads.weights.weights import WRITER_IMAGE, Weights, WeightsArgs

cluster = k8s.Provider("cluster", kubeconfig=pulumi.Config().require_secret("kubeconfig"))
on_cluster = pulumi.ResourceOptions(provider=cluster)
machine, nodes = find("a4-highgpu-8g"), Reservation(mode="reservation", name="b200-block")
model = Model(id="Qwen/Qwen3.5-27B-FP8", revision="2e1b21350ce589fcaafbb3c7d7eac526a7aed582", size_gb=29.0)


def serve(name: str, *, profile_name: str, replicas: int) -> Server:
    """One model with its own volume; every name on the cluster begins with `name`."""
    serving = profile(profile_name)
    namespace = Namespace(f"{name}-namespace", NamespaceArgs(name=name, gpu_quota=8 * replicas), on_cluster)
    connections = NetworkPoliciesArgs(namespace=namespace.name, traffic=Traffic(server=name, monitoring=False))
    policies = NetworkPolicies(f"{name}-network-policies", connections, on_cluster)
    in_namespace = pulumi.ResourceOptions(provider=cluster, depends_on=[namespace, policies])
    weights = Weights(
        f"{name}-weights",
        WeightsArgs(
            namespace=namespace.name, image=WRITER_IMAGE, model=model, zones=("europe-west4-b",), class_prefix=name
        ),
        in_namespace,
    )
    return Server(
        f"{name}-server",
        ServerArgs(
            namespace=namespace.name,
            name=name,
            image=Image().reference,
            replicas=replicas,
            engine=serving.engine,
            model=model,
            placement=placement(nodes, namespace=name, machine=machine),
            resources=Resources().of_pod(machine, machine.gpus),
            weights=weights.mount,
            annotations={
                "vllm-fleet.dev/context-tokens": str(serving.context_tokens),
                "vllm-fleet.dev/concurrency-per-replica": str(serving.concurrency_per_replica),
            },
        ),
        in_namespace,
    )


pulumi.export("chat", serve("chat", profile_name="serve-chat", replicas=2).endpoint)
pulumi.export("code", serve("code", profile_name="serve-code", replicas=1).endpoint)
