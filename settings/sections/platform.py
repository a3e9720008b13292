"""Section `platform`: where the cluster comes from."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from settings.sections.section import Section, like


class Platform(Section):
    """Where the cluster comes from: this stack, another one that already has it, or somebody else who made it."""

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
    """Name of the stack whose cluster this server joins, of this project; `organization/project/stack` for one elsewhere.
    Default: this stack makes its own."""
    kubeconfig: (
        Annotated[
            str,
            like(
                r"^[A-Za-z0-9_.][A-Za-z0-9_./-]{0,200}$",
                "a file's path from the stack file: letters, digits and _ . / -",
            ),
        ]
        | None
    ) = None
    """File, beside the stack file, of an Autopilot cluster in `gcp:project` and `gcp:region` that nobody's stack has:
    `KUBECONFIG=cluster.yaml gcloud container clusters get-credentials NAME` writes it, and it holds no credentials."""
    image_prefix: (
        Annotated[
            str,
            like(
                r"^[a-z0-9.-]{1,100}(/[a-z0-9._-]{1,100}){0,3}$",
                "a host with its folders, such as REGION-docker.pkg.dev/PROJECT/REPOSITORY",
            ),
        ]
        | None
    ) = None
    """With `kubeconfig`: what stands before a Docker Hub image's name, e.g. a remote repository of yours. Default: Docker Hub itself."""
    results_bucket: (
        Annotated[str, like(r"^[a-z0-9][a-z0-9._-]{1,61}[a-z0-9]$", "a bucket's name"), Field(max_length=63)] | None
    ) = None
    """With `kubeconfig`: your bucket for benchmark results. Required with the benchmark."""
