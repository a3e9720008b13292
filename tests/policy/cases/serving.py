"""Cases of the model server: every case of the lessons that breaks one, and what only a resource shows."""

from __future__ import annotations

import json
from collections.abc import Iterator

from facts.advisories import of_release
from facts.lessons.words import ADVISORIES_ANNOTATION, CONCURRENCY_ANNOTATION
from tests.policy.case import (
    CONTAINER,
    DEPLOYMENT,
    POD,
    Case,
    Edit,
    Props,
    change,
    drop,
    flag,
    get,
    of_program,
    of_resource,
    put,
    sound,
)
from tests.support import lessons

_REGISTRY = "europe-west4-docker.pkg.dev/offline-preview/dev-docker-hub"


def _of_cases() -> Iterator[Case]:
    """Every case of the lessons that breaks one, in the rendered Deployment."""
    for case in lessons.CASES:
        if case.broken:
            yield of_resource(case.lesson, case.what, change(DEPLOYMENT, case.lay_over), stack=case.stack)


def _accepted(until: str) -> str:
    return json.dumps({one.id: {"until": until, "reason": "no such client"} for one in of_release((0, 31, 0))})


def _image(tag: str) -> str:
    return f"{_REGISTRY}/vllm/vllm-openai:{tag}"


def _silence(props: Props) -> None:
    """Nothing declared, on the pods and on the object."""
    del props["metadata"]["annotations"]
    del get(props, "spec.template.metadata")["annotations"]


def _runs(image: str) -> Edit:
    return put(DEPLOYMENT, f"{CONTAINER}.image", value=image)


def _commanded(*words: str) -> Edit:
    return put(DEPLOYMENT, f"{CONTAINER}.command", value=list(words))


def _model(name: str) -> Edit:
    return put(DEPLOYMENT, f"{CONTAINER}.args.0", value=name)


_REPOSITORY = "Qwen/Qwen3.5-27B-FP8"
_COMMIT = "2e1b21350ce589fcaafbb3c7d7eac526a7aed582"

OF_RESOURCES = (
    of_resource(
        "flags-vllm-refuses", "a switch with a value", flag(DEPLOYMENT, "--enable-prefix-caching=true"), stack="cud"
    ),
    of_resource(
        "flags-vllm-refuses",
        "an option of former releases",
        flag(DEPLOYMENT, "--disable-log-requests"),
    ),
    sound(
        "flags-vllm-refuses",
        "a release that is not known",
        flag(DEPLOYMENT, "--new=1"),
        _runs("vllm/vllm-openai:v0.25.0"),
    ),
    of_resource(
        "image-not-pinned",
        "the tag alone, written manually",
        put(DEPLOYMENT, f"{CONTAINER}.image", value=_image("v0.18.1")),
    ),
    of_resource(
        "image-not-pinned",
        "what initialises a benchmark",
        put("benchmark-job", f"{POD}.initContainers.0.image", value="vllm/vllm-openai:v0.18.1"),
        stack="spot",
    ),
    sound("image-not-pinned", "a digest without a tag", _runs(f"org/app@sha256:{'0' * 64}"), _commanded()),
    of_resource(
        "image-by-tag",
        "another release without a published digest",
        put(DEPLOYMENT, f"{CONTAINER}.image", value=_image("v0.18.0")),
        stack="cud",
    ),
    sound(
        "image-by-tag", "its digest", put(DEPLOYMENT, f"{CONTAINER}.image", value=_image(f"v0.33.0@sha256:{'0' * 64}"))
    ),
    of_resource(
        "advisories-in-production",
        "a release with one",
        put(DEPLOYMENT, f"{CONTAINER}.image", value=_image(f"v0.31.0@sha256:{'0' * 64}")),
        stack="prod",
    ),
    of_resource(
        "advisories-in-production",
        "accepted until a day that is over",
        put(DEPLOYMENT, f"{CONTAINER}.image", value=_image(f"v0.31.0@sha256:{'0' * 64}")),
        put(
            DEPLOYMENT,
            "metadata.annotations",
            ADVISORIES_ANNOTATION,
            value=_accepted("2026-01-31"),
        ),
        stack="prod",
    ),
    sound(
        "advisories-in-production",
        "accepted until a day",
        put(DEPLOYMENT, f"{CONTAINER}.image", value=_image(f"v0.31.0@sha256:{'0' * 64}")),
        put(
            DEPLOYMENT,
            "metadata.annotations",
            ADVISORIES_ANNOTATION,
            value=_accepted("2999-12-31"),
        ),
        stack="prod",
    ),
    of_resource(
        "image-of-another-digest",
        "another image, written manually",
        put(DEPLOYMENT, f"{CONTAINER}.image", value=_image(f"v0.18.1@sha256:{'0' * 64}")),
    ),
    sound(
        "image-of-another-digest",
        "a digest that is agreed",
        put(DEPLOYMENT, f"{CONTAINER}.image", value=_image(f"v0.18.1@sha256:{'0' * 64}")),
        digests=[f"sha256:{'0' * 64}"],
    ),
    of_resource(
        "image-from-elsewhere",
        "a server from a registry of others",
        put(DEPLOYMENT, f"{CONTAINER}.image", value=f"ghcr.io/a/b:1@sha256:{'0' * 64}"),
    ),
    sound(
        "image-from-elsewhere",
        "a registry that is agreed",
        put(DEPLOYMENT, f"{CONTAINER}.image", value=f"ghcr.io/a/b:1@sha256:{'0' * 64}"),
        registries=["ghcr.io/a"],
    ),
    of_resource("chart-not-pinned", "no version", drop("gateway-pool", "version"), stack="gateway"),
    of_resource("chart-not-pinned", "a range", put("gateway-pool", "version", value="^1.4.0"), stack="gateway"),
    sound("chart-not-pinned", "a candidate", put("gateway-pool", "version", value="1.4.0-rc.1"), stack="gateway"),
    of_resource(
        "model-not-pinned",
        "the repository at a branch instead of the volume",
        _model(_REPOSITORY),
        flag(DEPLOYMENT, "--revision=main"),
        stack="spot",
    ),
    of_resource("model-not-pinned", "no revision", _model(_REPOSITORY)),
    of_resource(
        "model-not-pinned",
        "the beginning of a commit",
        _model(_REPOSITORY),
        flag(DEPLOYMENT, f"--revision={_COMMIT[:12]}"),
    ),
    sound("model-not-pinned", "a commit", _model(_REPOSITORY), flag(DEPLOYMENT, f"--revision={_COMMIT}")),
    *(sound("model-not-pinned", name, _model(name)) for name in ("gs://bucket/m", "./m", "$(MODEL)")),
    of_resource("needs-not-declared", "annotations removed", change(DEPLOYMENT, _silence), stack="cud"),
    of_resource(
        "needs-not-declared",
        "one of two",
        *(drop(DEPLOYMENT, f"{place}metadata.annotations", CONCURRENCY_ANNOTATION) for place in ("", "spec.template.")),
    ),
    sound("needs-not-declared", "on the workload itself", drop(DEPLOYMENT, "spec.template.metadata.annotations")),
)

ON_PURPOSE = (
    of_program(
        "repeated-on-purpose",
        "the record where another profile ran",
        settings={"server": {"profile": "record"}},
        stack="cud",
    ),
    of_resource(
        "repeated-on-purpose",
        "the record's release, declared as a repetition of its run",
        put(DEPLOYMENT, f"{CONTAINER}.image", value=_image("v0.18.0")),
        *(
            put(DEPLOYMENT, "spec.template.metadata.annotations", f"vllm-fleet.dev/{name}", value=value)
            for name, value in (("reproduces", "phases.mtp1-092"), ("on-purpose", "deepgemm-accuracy"))
        ),
        stack="cud",
    ),
)

CASES = (*_of_cases(), *OF_RESOURCES, *ON_PURPOSE)
