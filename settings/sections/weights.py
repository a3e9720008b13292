"""Section `weights`: how the weights reach the GPUs."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from settings.sections.section import SecretName, Section, like


class Writer(Section):
    """The Job that downloads the weights once."""

    cpu: Annotated[int, Field(ge=2, le=72)] = 4
    """vCPU of the writer pod."""
    memory_gib: Annotated[int, Field(ge=4, le=512)] = 16
    """Memory of the writer pod in GiB; Git LFS needs little, the page cache helps the checksums."""
    machine_family: Annotated[str, like(r"^[a-z][a-z0-9]*$", "a machine family, such as c4a")] = "c4a"
    """Machine family. It must attach Hyperdisk ML, which C4, N4 and E2 cannot, and be Arm, which the writer's pods ask
    for: C4A, the choice of the article, or N4A."""


class Weights(Section):
    """How the weights reach the GPUs."""

    source: Literal["hyperdisk", "huggingface"] = "hyperdisk"
    """`hyperdisk`: one download, one image, a read-only volume that every replica mounts.
    `huggingface`: each replica downloads for itself, as the article's single replica does; for one replica only."""
    size_gib: Annotated[int, Field(ge=4, le=65_536)] = 64
    """Size of the volume in GiB; the model and a tenth more."""
    throughput_mibps: Annotated[int, Field(ge=400, le=2_097_152)] = 2_400
    """Provisioned read throughput of the volume in MiB/s, shared by all replicas of a zone."""
    token_secret: SecretName | None = None
    """Secret Manager secret that holds a Hugging Face token. Qwen3.5-27B-FP8 is public and needs none."""
    writer: Writer = Writer()
    """The download Job."""
