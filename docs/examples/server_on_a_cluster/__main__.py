"""One model's servers on an existing cluster, by kubeconfig, without a vllm-fleet stack file."""

from __future__ import annotations

import pulumi
import pulumi_kubernetes as k8s

from facts.machines import find
from facts.signals.catalogue import Watched, catalogue
from settings.derived.traffic import Traffic
from settings.sections.capacity import Spot, placement
from settings.sections.engine import Engine
from settings.sections.model import Model
from settings.sections.server import Image, Resources
from workloads.monitoring import Monitoring, MonitoringArgs
from workloads.namespace import Namespace, NamespaceArgs
from workloads.network_policies import NetworkPolicies, NetworkPoliciesArgs
from workloads.server.server import Server, ServerArgs

cluster = k8s.Provider("cluster", kubeconfig=pulumi.Config().require_secret("kubeconfig"))
on_cluster = pulumi.ResourceOptions(provider=cluster)

namespace = Namespace("namespace", NamespaceArgs(name="chat", gpu_quota=8), on_cluster)
connections = NetworkPoliciesArgs(namespace=namespace.name, traffic=Traffic(server="chat", weights_writer=False))
policies = NetworkPolicies("network-policies", connections, on_cluster)
# After the namespace's quota and policies.
in_namespace = pulumi.ResourceOptions(provider=cluster, depends_on=[namespace, policies])
machine = find("a4-highgpu-8g")
server = Server(
    "server",
    ServerArgs(
        namespace=namespace.name,
        name="chat",
        image=Image().reference,
        engine=Engine(
            data_parallel_size=8,
            max_model_len=8192,
            max_num_seqs=256,
            kv_cache_dtype="fp8_e4m3",
            language_model_only=True,
        ),
        model=Model(
            id="Qwen/Qwen3.5-27B-FP8",
            revision="2e1b21350ce589fcaafbb3c7d7eac526a7aed582",
            size_gb=29.0,
        ),
        placement=placement(Spot(mode="spot"), namespace="chat", machine=machine),
        # Each replica downloads the weights to its own disk.
        resources=Resources().of_pod(machine, machine.gpus, downloaded_gb=29.0),
        startup_minutes=45,
        annotations={"vllm-fleet.dev/context-tokens": "8192", "vllm-fleet.dev/concurrency-per-replica": "400"},
    ),
    in_namespace,
)
signals = catalogue(Watched(server="chat", namespace="chat", stack="chat", engines_per_pod=8))
Monitoring("monitoring", MonitoringArgs(server=server, signals=signals), in_namespace)

pulumi.export("endpoint", server.endpoint)
