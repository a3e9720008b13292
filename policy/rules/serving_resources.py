"""Rules for pinned images, charts and models."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from engines import Engine, each_engine
from facts import releases
from facts.finding import Finding
from pods import pods
from rule import Resource, ResourceRule, Settings, dig, finding

_COMMIT: Final = re.compile(r"[0-9a-f]{40}")
_VERSION: Final = re.compile(r"v?[0-9]+\.[0-9]+\.[0-9]+(?:[-+][0-9A-Za-z.+-]+)?")
_DIGEST: Final = re.compile(r"sha256:[0-9a-f]{64}")
_SERVER: Final = "vllm/vllm-openai"
_RELEASES: Final = {f"{_SERVER}:{one.tag}": one.digest for one in map(releases.find, releases.VERSIONS)}
"""Published digests of the server's image; None for a release whose digest no source publishes."""
_ELSEWHERE: Final = re.compile(r"(/|\.|[a-z0-9]+://)")


def _images(resource: Resource) -> Iterator[tuple[str, str, str]]:
    """Path, name and digest of every image that a resource's pods run."""
    for pod in pods(resource):
        for one in pod.every_container:
            name, _at, digest = one.image.partition("@")
            yield f"{one.path}.image", name, digest


def _release(image: str) -> str:
    """The image without the registry that it is pulled through."""
    return _SERVER + image.rpartition(_SERVER)[2] if _SERVER in image else image


def _image_digest(resource: Resource, _: Settings) -> Iterator[Finding]:
    for path, image, digest in _images(resource):
        # Until a release's digest is published, the tag decides: `fleet doctor --for up --live` prints the registry's.
        is_known = _RELEASES.get(_release(image), "") is None
        if not _DIGEST.fullmatch(digest) and not (is_known and not digest):
            yield finding(f"{path} is {image or 'missing'}, without a digest")


def _other_digest(resource: Resource, _: Settings) -> Iterator[Finding]:
    for path, image, digest in _images(resource):
        published = _RELEASES.get(_release(image))
        if published and digest and digest != published:
            yield finding(f"{path} is {image}@{digest}; the digest of {_release(image)} is {published}")


def _chart_version(resource: Resource, _: Settings) -> Iterator[Finding]:
    if resource.type.startswith("kubernetes:helm.sh/"):
        version = dig(resource.props, "version")
        if version is None or not _VERSION.fullmatch(str(version)):
            yield finding(f"version of the chart {dig(resource.props, 'chart')} is {version or 'missing'}")


def _revision(engine: Engine, _: Settings) -> Iterator[Finding]:
    model = engine.flags.model
    # No flag pins the contents of a path or bucket.
    if model is None or _ELSEWHERE.match(model) or "$(" in model:
        return
    revision = engine.flags.text("revision")
    if revision is None or not _COMMIT.fullmatch(revision):
        yield engine.found(f"{model} is downloaded at revision {revision or 'main'}, which is not a commit")


RULES: Final = (
    ResourceRule(
        name="image-not-pinned",
        subject="serving",
        statement="Images are pinned by digest.",
        evidence="a tag can be moved: replicas of one fleet may then run different servers, and push access to the registry runs code "
        "beside the weights. Mandatory: one line prevents it",
        fix="append the digest to the tag: registry/name:tag@sha256:...",
        level="mandatory",
        severity="high",
        judge=_image_digest,
    ),
    ResourceRule(
        name="image-of-another-digest",
        subject="serving",
        statement="A published release of vLLM has its published digest.",
        evidence="the digest decides what runs; the tag beside it is a comment that these rules believe. Source: Docker Hub, "
        "vllm/vllm-openai. Mandatory: another image under a release's name runs unreviewed code with the weights and the key",
        fix="the published digest, or a tag of its own for an image of your own",
        level="mandatory",
        severity="critical",
        judge=_other_digest,
    ),
    ResourceRule(
        name="chart-not-pinned",
        subject="serving",
        statement="A chart has one exact version.",
        evidence="without a version Helm takes the newest, and a range moves too: an update would bring unreviewed objects. Source: Helm "
        "documentation, charts. Mandatory: one line prevents it",
        fix="version: v1.4.0, or the version you reviewed",
        level="mandatory",
        severity="high",
        judge=_chart_version,
    ),
    ResourceRule(
        name="model-not-pinned",
        subject="serving",
        statement="A downloaded model is pinned to a commit of its repository.",
        evidence="weights, tokenizer and chat template of a branch can change, and each replica downloads separately. Mandatory: answers "
        "would change without a deployment",
        fix="--revision=<commit, 40 hexadecimal digits>",
        level="mandatory",
        severity="high",
        judge=each_engine(_revision),
    ),
)
