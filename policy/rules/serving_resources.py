"""Rules for pinned images, charts and models, and for declared traffic."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from engines import Engine, each_engine
from pods import pods
from rule import Finding, Resource, Rule, Settings, dig
from settings.rules.words import CONCURRENCY_ANNOTATION, CONTEXT_ANNOTATION

_COMMIT: Final = re.compile(r"[0-9a-f]{40}")
_VERSION: Final = re.compile(r"v?[0-9]+\.[0-9]+\.[0-9]+(?:[-+][0-9A-Za-z.+-]+)?")
_ELSEWHERE: Final = re.compile(r"(/|\.|[a-z0-9]+://)")


def _image_digest(resource: Resource, _: Settings) -> Iterator[Finding]:
    for pod in pods(resource):
        for container in (*pod.init_containers, *pod.containers):
            if "@sha256:" not in container.image:
                yield Finding(what=f"{container.path}.image is {container.image or 'missing'}, without a digest")


def _chart_version(resource: Resource, _: Settings) -> Iterator[Finding]:
    if (
        resource.is_kubernetes
        and resource.kind in ("Release", "Chart")
        and resource.type.startswith("kubernetes:helm.sh/")
    ):
        version = dig(resource.props, "version")
        if version is None or not _VERSION.fullmatch(str(version)):
            yield Finding(what=f"version of the chart {dig(resource.props, 'chart')} is {version or 'missing'}")


def _latest(resource: Resource, _: Settings) -> Iterator[Finding]:
    for pod in pods(resource):
        for container in (*pod.init_containers, *pod.containers):
            name, _at, digest = container.image.partition("@")
            tag = name.rpartition("/")[2].partition(":")[2]
            if not digest and tag in ("", "latest"):
                yield Finding(
                    what=f"{container.path}.image is {container.image or 'missing'}, "
                    + ("with the tag latest" if tag else "which means the tag latest")
                )


def _revision(engine: Engine, _: Settings) -> Iterator[Finding]:
    model = engine.flags.model
    # No flag pins the contents of a path or bucket.
    if model is None or _ELSEWHERE.match(model) or "$(" in model:
        return
    revision = engine.flags.text("revision")
    if revision is None or not _COMMIT.fullmatch(revision):
        yield engine.found(f"{model} is downloaded at revision {revision or 'main'}, which is not a commit")


def _undeclared(engine: Engine, _: Settings) -> Iterator[Finding]:
    missing = [
        name
        for name, value in (
            (CONTEXT_ANNOTATION, engine.needed_context_tokens),
            (CONCURRENCY_ANNOTATION, engine.offered_concurrency),
        )
        if value is None
    ]
    if missing:
        yield engine.found(f"no number in the annotation {' or '.join(missing)}")


RULES: Final = (
    Rule(
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
    Rule(
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
    Rule(
        name="image-latest",
        subject="serving",
        statement="No container runs the tag latest.",
        evidence="latest is the image pushed last when a node pulls it. Mandatory: a restart is an unreviewed upgrade",
        fix="name a release and append its digest",
        level="mandatory",
        severity="high",
        judge=_latest,
    ),
    Rule(
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
    Rule(
        name="needs-not-declared",
        subject="serving",
        statement="A model server declares its expected traffic.",
        evidence="without the required context and the offered concurrency, context-far-above-need, context-below-need and "
        "sequences-below-load cannot be checked. Advisory: no fault is known",
        fix=f"annotate the pod template with {CONTEXT_ANNOTATION} (longest prompt plus answer) and {CONCURRENCY_ANNOTATION} (requests in "
        "flight per replica)",
        level="advisory",
        severity="low",
        judge=each_engine(_undeclared),
    ),
)
