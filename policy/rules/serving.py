"""What a vLLM server is started with."""

from __future__ import annotations

from collections.abc import Iterator

import figures
from pods import servers
from rule import Finding, Resource, Rule, Settings

_TP8 = figures.ledger("phases.figures.tp8.total_tokens_per_s")


def _latest(resource: Resource, _: Settings) -> Iterator[Finding]:
    for server in servers(resource):
        image = server.container.image
        if "@sha256:" not in image:
            yield Finding(what=f"{server.container.path}.image is {image}, without a digest")


RULES = (
    Rule(
        name="image-not-pinned",
        subject="serving",
        statement="The image of a model server is pinned by digest.",
        evidence="a tag can be moved to another image between two replicas of one fleet",
        fix="write the digest behind the tag: registry/name:tag@sha256:...",
        level="mandatory",
        severity="high",
        judge=_latest,
    ),
)
