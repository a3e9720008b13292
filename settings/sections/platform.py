"""Section `platform`: where the cluster comes from."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, Field

from settings.sections.section import HOST_PATTERN, IMAGE_PART, Section, like


def _is_a_bucket(name: str) -> str:
    """The name. Raises ValueError for a name that Cloud Storage refuses. Source: Cloud Storage, "About Cloud Storage buckets"."""
    if (
        name.startswith("goog")
        or "google" in name
        or re.search(r"\.\.|\.-|-\.", name)
        or re.fullmatch(r"[0-9.]+", name)
    ):
        raise ValueError(
            "a bucket's name: no address, nothing that begins with goog or contains google, and no dot beside a dot or dash"
        )
    return name


class Platform(Section):
    """The cluster: created by this stack, by another stack, or outside this project."""

    stack: (
        Annotated[
            str,
            like(
                r"^[A-Za-z0-9_.-]{1,100}(/[A-Za-z0-9_.-]{1,100}/[A-Za-z0-9_.-]{1,100})?$",
                "a stack, or organization/project/stack",
            ),
        ]
        | None
    ) = None
    """Stack whose cluster this server joins: its name in this project, or `organization/project/stack`. Default: this stack creates a
    cluster."""
    kubeconfig: (
        Annotated[
            str,
            like(
                r"^([A-Za-z0-9_.][A-Za-z0-9_./-]{0,200})?[A-Za-z0-9_-]$",
                "a file's path relative to the stack file: letters, digits and _ . / -",
            ),
        ]
        | None
    ) = None
    """Kubeconfig file, next to the stack file, of an Autopilot cluster in `gcp:project` and `gcp:region` that no stack manages.
    `KUBECONFIG=cluster.yaml gcloud container clusters get-credentials NAME` writes it without credentials."""
    image_prefix: (
        Annotated[
            str,
            like(
                rf"^{HOST_PATTERN}(/{IMAGE_PART}){{0,5}}$",
                "a host and path, such as REGION-docker.pkg.dev/PROJECT/REPOSITORY",
            ),
        ]
        | None
    ) = Field(default=None, max_length=200)
    """With `kubeconfig`: prefix of Docker Hub image names, e.g. your remote repository. Default: Docker Hub."""
    results_bucket: (
        Annotated[str, like(r"^[a-z0-9][a-z0-9._-]{1,61}[a-z0-9]$", "a bucket's name"), AfterValidator(_is_a_bucket)]
        | None
    ) = None
    """With `kubeconfig`: your bucket for benchmark results. Required with the benchmark."""
