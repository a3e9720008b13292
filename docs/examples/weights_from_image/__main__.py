"""Weights from an existing disk image as a read-only volume: no writer, no download, no vllm-fleet stack file."""

from __future__ import annotations

import pulumi
import pulumi_kubernetes as k8s

from settings.sections.model import Model
from settings.sections.weights import Weights as Volume
from workloads.space import Space
from workloads.weights.weights import Weights, WeightsArgs

config = pulumi.Config()
cluster = k8s.Provider("cluster", kubeconfig=config.require_secret("kubeconfig"))

weights = Weights(
    "weights",
    WeightsArgs(
        space=Space(namespace="models"),
        # The release in the image.
        model=Model(
            id="Qwen/Qwen3.5-27B-FP8",
            revision="2e1b21350ce589fcaafbb3c7d7eac526a7aed582",
            size_gb=29.0,
        ),
        zones=["europe-west4-b", "europe-west4-a"],
        volume=Volume(source="image", image=config.require("image"), size_gib=64, throughput_mibps=2400),
        class_prefix="models",
    ),
    pulumi.ResourceOptions(providers={"kubernetes": cluster}),
)

assert weights.mount is not None
pulumi.export("claim", weights.mount.claim_name)
pulumi.export("modelPath", weights.mount.model_path)
