"""Section `weights`: the model weights and their volume."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import Field

from settings.sections.section import SecretReference, Section, like

IMAGE_PATTERN = (
    r"^(https://www\.googleapis\.com/compute/v1/)?"
    r"projects/([a-z0-9.-]+:)?[a-z][a-z0-9-]{4,28}[a-z0-9]/global/images/[a-z]([a-z0-9-]{0,61}[a-z0-9])?$"
)
"""Source: Compute Engine API, images: name (RFC 1035, 63 characters) and selfLink; Resource Manager, project IDs."""

MOUNT_PATH = "/weights"
"""Mount path in writer and servers; the model is in a folder of its name below."""


WRITER_FAMILY: Final = "c4a"
"""Machine family of the pod that downloads, as in the article: Arm machines that can attach Hyperdisk ML."""
WRITER_CPU = 4
WRITER_MEMORY_GIB = 16
"""Of the pod that downloads. Git LFS needs little; the page cache speeds up checksums."""


class Weights(Section):
    """The model weights: source, volume and download."""

    source: Literal["hyperdisk", "image", "huggingface"] = "hyperdisk"
    """`hyperdisk`: one download into a disk image, mounted read-only by every replica. `image`: the same from an existing disk image,
    without a download. `huggingface`: the replica downloads the weights at every start, as in the article; for one replica only."""
    image: (
        Annotated[str, like(IMAGE_PATTERN, "projects/PROJECT/global/images/NAME, or an image's self link")] | None
    ) = None
    """Disk image for `source: image`: `projects/PROJECT/global/images/NAME` or its self link. docs/weights.md shows how to create one."""
    size_gib: Annotated[int, Field(ge=4, le=65_536)] = 64
    """Size of the volume in GiB: the model plus 10 %."""
    throughput_mibps: Annotated[int, Field(ge=400, le=2_097_152)] = 2_400
    """Provisioned read throughput of the volume in MiB/s, shared by all replicas of a zone."""
    token_secret: SecretReference | None = None
    """Secret Manager secret with a Hugging Face token: its name, or `{name, version}`. Qwen3.5-27B-FP8 is public and needs none."""

    @property
    def has_volume(self) -> bool:
        """Whether replicas mount a volume with the weights."""
        return self.source != "huggingface"

    @property
    def is_written(self) -> bool:
        """Whether this stack downloads the weights to a volume."""
        return self.source == "hyperdisk"

    @property
    def image_handle(self) -> str:
        """The image in the disk driver's form, `projects/PROJECT/global/images/NAME`; "" without an image."""
        return (self.image or "").rpartition("/compute/v1/")[2]
