"""Rules for pinned images, charts and models, and for declared traffic."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from engines import Engine, each_engine
from facts import pickers, releases
from facts.finding import Finding
from facts.lessons.words import CONCURRENCY_ANNOTATION, CONTEXT_ANNOTATION
from google_provider import projects
from pods import pods
from rule import Resource, ResourceRule, Setting, Settings, StackRule, dig, finding, has, known, listed

_COMMIT: Final = re.compile(r"[0-9a-f]{40}")
_VERSION: Final = re.compile(r"v?[0-9]+\.[0-9]+\.[0-9]+(?:[-+][0-9A-Za-z.+-]+)?")
_DIGEST: Final = re.compile(r"sha256:[0-9a-f]{64}")
_SERVER: Final = "vllm-openai"
_PUBLISHED: Final[Mapping[str, str]] = {
    one.tag: one.digest for one in map(releases.find, releases.VERSIONS) if one.digest is not None
}
"""Published digests of the server's image by tag."""
_FROM_ANYWHERE: Final = frozenset((*_PUBLISHED.values(), pickers.LLM_D_IMAGE.partition("@")[2]))
"""Digests of images that are what their authors published, from any registry."""
_UNPUBLISHED: Final = frozenset(
    f"{_SERVER}:{one.tag}" for one in map(releases.find, releases.VERSIONS) if one.digest is None
)
"""Server images of known releases without a published digest."""
_CHARTS: Final[Mapping[str, tuple[str, ...]]] = {
    "keda": ("https://kedacore.github.io/charts/keda", "oci://ghcr.io/kedacore/charts/keda"),
    "inferencepool": ("oci://registry.k8s.io/gateway-api-inference-extension/charts/inferencepool",),
}
"""Where the authors publish the charts that this program uses. Source: KEDA documentation, deploying; Gateway API Inference Extension,
getting started."""
_AUTHORS: Final = ("ghcr.io", "kedacore/", "registry.k8s.io")
"""How registries and repositories in the default values of these charts begin. Source: the charts' values.yaml."""
_ELSEWHERE: Final = re.compile(r"(/|\.|[a-z0-9]+://)")


def _images(resource: Resource) -> Iterator[tuple[str, str]]:
    """Path and reference of every image that a resource's pods run or mount."""
    for pod in pods(resource):
        for one in pod.every_container:
            yield f"{one.path}.image", one.image
        for index, volume in enumerate(listed(dig(pod.spec, "volumes"))):
            if has(volume, "image"):
                yield f"{pod.spec_path}.volumes[{index}].image.reference", str(dig(volume, "image", "reference") or "")


def _image_digest(resource: Resource, _: Settings) -> Iterator[Finding]:
    for path, image in _images(resource):
        if not _DIGEST.fullmatch(image.partition("@")[2]) and not _has_unpublished_digest(image):
            yield finding(f"{path} is {image or 'missing'}, without a digest")


def _image_by_tag(resource: Resource, _: Settings) -> Iterator[Finding]:
    for path, image in _images(resource):
        if _has_unpublished_digest(image):
            yield finding(f"{path} is {image}, without a digest")


def _has_unpublished_digest(image: str) -> bool:
    """Whether an image is a known release of vLLM by tag, from Docker Hub or Artifact Registry, whose digest no source publishes."""
    place, slash, name = image.rpartition("vllm/")
    return bool(slash) and name in _UNPUBLISHED and (place in ("", "docker.io/") or "-docker.pkg.dev/" in place)


def _other_digest(resource: Resource, settings: Settings) -> Iterator[Finding]:
    for path, image in _images(resource):
        name, _at, digest = image.partition("@")
        program, _colon, tag = name.rpartition("/")[2].partition(":")
        published = _PUBLISHED.get(tag) if program == _SERVER else None
        if published and digest not in {"", published, *map(str, listed(settings["digests"]))}:
            yield finding(f"{path} is {image}; the digest of {program}:{tag} is {published}")


def _from_elsewhere(resources: Sequence[Resource], settings: Settings) -> Iterator[Finding]:
    trusted = {str(one).rstrip("/") + "/" for one in listed(settings["registries"])}
    trusted |= set(_own_registries(resources))
    for resource in resources:
        for path, image in _images(resource):
            if (
                trusted
                and image
                and image.partition("@")[2] not in _FROM_ANYWHERE
                and not image.startswith(tuple(trusted))
            ):
                yield finding(
                    f"{resource.label}: {path} is {image}, and this stack pulls from {', '.join(sorted(trusted))}",
                    urn=resource.urn,
                    write=_agreement(image, listed(settings["registries"])),
                )
            program = (
                next((image.removeprefix(own) for own in trusted if image.startswith(own)), "")
                .partition("@")[0]
                .partition(":")[0]
            )
            if program.endswith(f"/{_SERVER}") and program != f"vllm/{_SERVER}":
                yield finding(
                    f"{resource.label}: {path} is {image}, and vLLM publishes it as vllm/{_SERVER}", urn=resource.urn
                )
        if resource.type.startswith("kubernetes:helm.sh/"):
            chart = "/".join(
                str(part).rstrip("/")
                for part in (dig(resource.props, "repositoryOpts", "repo"), dig(resource.props, "chart"))
                if part
            )
            published = _CHARTS.get(chart.rpartition("/")[2], ())
            if published and "/" in chart and chart not in published:
                yield finding(
                    f"{resource.label}: the chart is {chart}, and its authors publish it as {' or '.join(published)}",
                    urn=resource.urn,
                )
            for path, image in _images_in(dig(resource.props, "values"), "values") if published else ():
                if not image.startswith((*_AUTHORS, *trusted)):
                    yield finding(
                        f"{resource.label}: {path} is {image}, which its authors do not publish", urn=resource.urn
                    )


def _agreement(image: str, registries: Iterable[Any]) -> str:
    """What to write for an image of one's own; nothing where its name has no registry, whose name has a dot or a port."""
    its_own = image.partition("@")[0].rpartition("/")[0]
    if not {".", ":"} & set(its_own.partition("/")[0]):
        return ""
    entry = json.dumps({"registries": [*registries, its_own]})
    return (
        "pull the image through the stack's repository, or, for an image of your own, write "
        f'"image-from-elsewhere": {entry} in policy/config/STACK.json'
    )


def _images_in(values: Any, path: str) -> Iterator[tuple[str, str]]:
    """Path and text of every image, registry and repository in a chart's values."""
    if isinstance(values, Mapping):
        for key in values:
            value = known(values, key)
            if isinstance(value, str) and value and key in ("image", "registry", "repository", "hub"):
                yield f"{path}.{key}", value
            yield from _images_in(value, f"{path}.{key}")


def _own_registries(resources: Sequence[Resource]) -> Iterator[str]:
    """Repositories that the stack makes, and the one from which its published server image comes."""
    for resource in resources:
        if resource.type == "gcp:artifactregistry/repository:Repository" and dig(resource.props, "format") == "DOCKER":
            location, project, name = (dig(resource.props, key) for key in ("location", "project", "repositoryId"))
            for owner in [project] if project else projects(resources):
                if location and name:
                    yield f"{location}-docker.pkg.dev/{owner}/{name}/"
        for _path, image in _images(resource):
            name, _at, digest = image.partition("@")
            if digest in _PUBLISHED.values() and "-docker.pkg.dev/" in name:
                yield "/".join(name.split("/")[:3]) + "/"


def _chart_version(resource: Resource, _: Settings) -> Iterator[Finding]:
    if (
        resource.is_kubernetes
        and resource.kind in ("Release", "Chart")
        and resource.type.startswith("kubernetes:helm.sh/")
    ):
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
        name="image-by-tag",
        subject="serving",
        statement="A release of vLLM without a published digest is pinned to the one that its registry has.",
        evidence="until then the tag decides what runs. Advisory: the digest is known once the stack's repository exists, and the tag "
        "is pulled through it",
        fix="set the digest that `fleet doctor --for up --live` prints: server.image.digest",
        level="advisory",
        severity="medium",
        judge=_image_by_tag,
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
        settings=(
            Setting(
                name="digests",
                type="array",
                default=[],
                why="Digests that are the same release, such as of one platform",
            ),
        ),
        judge=_other_digest,
    ),
    StackRule(
        name="image-from-elsewhere",
        subject="serving",
        statement="Images come from the stack's own repository, and known charts from their authors.",
        evidence="whoever may push to a registry runs code beside the weights, and a chart brings its own roles. Mandatory where the stack "
        "makes a repository in Artifact Registry or pulls a published server image from one; an image with the published digest of vLLM "
        "or of llm-d's picker may come from anywhere",
        fix="pull the image through the stack's repository, or write its registry in registries of image-from-elsewhere, in "
        "policy/config/STACK.json",
        level="mandatory",
        severity="high",
        settings=(
            Setting(
                name="registries",
                type="array",
                default=[],
                why="Further registries, as prefixes of images: HOST/PROJECT/REPOSITORY",
            ),
        ),
        judge=_from_elsewhere,
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
    ResourceRule(
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
