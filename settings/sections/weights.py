"""Section `weights`: how the weights reach the GPUs."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from settings.sections.section import SecretReference, Section, like

IMAGE_PATTERN = (
    r"^(https://www\.googleapis\.com/compute/v1/)?"
    r"projects/([a-z0-9.-]+:)?[a-z][a-z0-9-]{4,28}[a-z0-9]/global/images/[a-z]([a-z0-9-]{0,61}[a-z0-9])?$"
)
"""Source: Compute Engine API, images: name (RFC 1035, 63 characters) and selfLink; Resource Manager, project IDs."""


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

    source: Literal["hyperdisk", "image", "huggingface"] = "hyperdisk"
    """`hyperdisk`: one download, one image, a read-only volume that every replica mounts.
    `image`: the same volume from a disk image that is there already; nothing is downloaded.
    `huggingface`: each replica downloads for itself, as the article's single replica does; for one replica only."""
    image: (
        Annotated[str, like(IMAGE_PATTERN, "projects/PROJECT/global/images/NAME, or an image's self link")] | None
    ) = None
    """Disk image that `source: image` reads, `projects/PROJECT/global/images/NAME` or its self link. Made by this program for the
    same model and revision, or by hand from a disk that has the model in the folder of its name. docs/weights.md shows both."""
    size_gib: Annotated[int, Field(ge=4, le=65_536)] = 64
    """Size of the volume in GiB; the model and a tenth more."""
    throughput_mibps: Annotated[int, Field(ge=400, le=2_097_152)] = 2_400
    """Provisioned read throughput of the volume in MiB/s, shared by all replicas of a zone."""
    token_secret: SecretReference | None = None
    """Secret Manager secret that holds a Hugging Face token: its name, or `{name, version}`. Qwen3.5-27B-FP8 is public and needs none."""
    writer: Writer = Writer()
    """The download Job."""
    name_ending: Annotated[str, like(r"^([0-9a-f]{7})?$", "7 digits and letters a to f, or nothing")] = ""
    """What ends the names of the volume's classes and of its resources in Pulumi. `fleet rollout promote` writes it, so that the volume
    that a canary has mounted goes over to the servers as it is; by hand it makes a second volume of the same weights."""

    @property
    def has_volume(self) -> bool:
        """Whether replicas mount the weights; else each downloads them."""
        return self.source != "huggingface"

    @property
    def is_written(self) -> bool:
        """Whether this stack downloads the weights onto a volume."""
        return self.source == "hyperdisk"

    @property
    def image_handle(self) -> str:
        """The image as the disk driver names it: `projects/PROJECT/global/images/NAME`; "" where there is none."""
        return (self.image or "").rpartition("/compute/v1/")[2]
