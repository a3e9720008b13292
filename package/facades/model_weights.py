"""Facade `ModelWeights`: one model's weights as a read-only volume."""

# No `from __future__ import annotations` in a facade: the schema is made of its annotations, and a text is none.

from typing import NotRequired, TypedDict

import pulumi

from facades.inputs import EXISTING_CLUSTER, PACKAGE, on_callers_cluster, secret, settings_of
from facts.names import WRITER_ACCOUNT
from workloads.namespace import service_account
from workloads.space import Space
from workloads.weights.weights import Weights, WeightsArgs


class ModelWeightsArgs(TypedDict):
    """Inputs of `ModelWeights`."""

    zones: list[str]
    """Zones of the servers, all of one region, e.g. ["europe-west4-b"]: each gets a volume."""
    namespace: str
    """Namespace of the volume and its writer. It must exist; the writer's account `weights-writer` is made."""
    model: str
    """Hugging Face repository, e.g. "Qwen/Qwen3.5-27B-FP8"."""
    revision: NotRequired[str]
    """Commit of that repository, 40 hexadecimal digits. Default: the catalogue's; required for other models."""
    model_size_gb: NotRequired[float]
    """Size of the repository's files in GB (10**9 bytes). Default: the catalogue's; required for other models."""
    model_config: NotRequired[str]
    """Path of the model's config.json, from the program's folder. Default: the catalogue's shape; required for other models."""
    weights_size_gib: NotRequired[int]
    """Size of the volume in GiB, 4 to 65536; the model and a tenth more. Default: 64."""
    weights_throughput_mibps: NotRequired[int]
    """Read throughput of the volume in MiB/s, 400 to 2097152, shared by all servers of a zone. Default: 2400."""
    hf_token: NotRequired[pulumi.Input[str]]
    """Hugging Face token for a gated model; kept as a secret. Default: none."""
    labels: NotRequired[dict[str, str]]
    """Google Cloud labels of the disks, e.g. {team: inference}. Default: none."""


class ModelWeights(pulumi.ComponentResource):
    """The weights of one model: one download, one disk image, one Hyperdisk ML volume in each zone that all servers mount read-only.

    Needs your cluster's Kubernetes provider. Another revision is another volume.
    """

    claim: pulumi.Output[str]
    """Name of the PersistentVolumeClaim to mount, read-only; `weightsClaim` of `VllmServer`."""
    model_path: pulumi.Output[str]
    """Folder of the model in a pod that mounts the claim at /weights."""

    def __init__(self, name: str, args: ModelWeightsArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        on_callers_cluster("ModelWeights", opts)
        fixed = {**EXISTING_CLUSTER, "capacity": {"mode": "spot"}}
        settings = settings_of("ModelWeights", name, args, fixed, elsewhere=("server", "capacity", "machine"))
        super().__init__(f"{PACKAGE}:index:ModelWeights", name, None, opts)
        child = pulumi.ResourceOptions(parent=self)
        labels = settings.object_labels
        account = service_account(f"{name}-account", WRITER_ACCOUNT, settings.namespace, labels, child)
        weights = Weights(
            f"{name}-weights",
            WeightsArgs(
                space=Space(namespace=settings.namespace, labels=labels),
                model=settings.serving.model,
                volume=settings.weights,
                zones=settings.zones,
                class_prefix=settings.namespace,
                hf_token=secret(args, "hf_token"),
                disk_labels=settings.labels,
            ),
            pulumi.ResourceOptions(parent=self, depends_on=[account]),
        )
        mount = weights.mount
        assert mount is not None  # source is hyperdisk
        # By URNs, which a preview knows: who uses the names comes after the volume.
        ready = pulumi.Output.all(*(resource.urn for resource in mount.depends_on))
        self.claim = ready.apply(lambda _: mount.claim_name)
        self.model_path = ready.apply(lambda _: mount.model_path)
        self.register_outputs({"claim": self.claim, "modelPath": self.model_path})
