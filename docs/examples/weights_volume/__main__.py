"""A model's weights as a read-only volume for your own servers, without a vllm-fleet stack file."""

from __future__ import annotations

import pulumi
import pulumi_kubernetes as k8s

from settings.sections.model import Model
from settings.sections.weights import Weights as Volume
from workloads.weights.weights import WRITER_IMAGE, Weights, WeightsArgs

cluster = k8s.Provider("cluster", kubeconfig=pulumi.Config().require_secret("kubeconfig"))

# The namespace and its policies exist already.
weights = Weights(
    "weights",
    WeightsArgs(
        namespace="models",
        image=WRITER_IMAGE,
        model=Model(
            id="Qwen/Qwen3.5-27B-FP8",
            revision="2e1b21350ce589fcaafbb3c7d7eac526a7aed582",
            size_gb=29.0,
        ),
        zones=("europe-west4-b",),
        volume=Volume(size_gib=64, throughput_mibps=2400),
        class_prefix="models",
    ),
    pulumi.ResourceOptions(provider=cluster),
)

# For pods: the read-only claim and the model's folder in it.
assert weights.mount is not None
pulumi.export("claim", weights.mount.claim_name)
pulumi.export("modelPath", weights.mount.model_path)
