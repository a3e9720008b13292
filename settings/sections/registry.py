"""Section `registry`: how images are pulled from Docker Hub."""

from __future__ import annotations

from typing import Annotated

from settings.sections.section import SecretName, Section, like


class Registry(Section):
    """A Docker Hub account for the repository that images are pulled through. Anonymous pulls are limited to 100 in six hours for each
    IP address, which many projects share.
    """

    docker_hub_user: Annotated[str, like(r"^[a-z0-9_]{4,30}$", "4 to 30 lowercase letters, digits and underscores")]
    """Docker ID of the account. Source: Docker docs, "FAQs on Docker accounts"; older ones have underscores."""
    docker_hub_token_secret: SecretName
    """Secret Manager secret in the stack's project with a read-only personal access token of that account. The latest version is used;
    only Artifact Registry's service agent gets access to it."""
