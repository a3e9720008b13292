"""Section `registry`: how images are pulled from Docker Hub."""

from __future__ import annotations

from typing import Annotated

from settings.sections.section import SecretName, Section, like


class Registry(Section):
    """A Docker Hub account for the repository that images are pulled through. Without one Docker Hub is read anonymously: 100 pulls
    in six hours for an address, which many projects share.
    """

    docker_hub_user: Annotated[str, like(r"^[a-z0-9_]{4,30}$", "4 to 30 lower-case letters, digits and underscores")]
    """Name of the Docker Hub account, its Docker ID. Source: Docker docs, "FAQs on Docker accounts"; older ones have underscores."""
    docker_hub_token_secret: SecretName
    """Secret Manager secret of the stack's project that holds a personal access token of that account, read-only. Its newest version
    is used; Artifact Registry's service agent is let read it, and nothing else is."""
