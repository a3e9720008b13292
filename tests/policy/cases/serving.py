"""Cases of the model server: every case of the lessons, and what only a resource shows."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import replace

from tests.policy.case import (
    CONTAINER,
    DEPLOYMENT,
    POD,
    Case,
    Edit,
    Resources,
    Rule,
    broken,
    drop,
    find,
    flag,
    put,
    sound,
)
from tests.support import lessons

_REGISTRY = "europe-west4-docker.pkg.dev/offline-preview/dev-docker-hub"
_REPOSITORY = "Qwen/Qwen3.5-27B-FP8"
_COMMIT = "2e1b21350ce589fcaafbb3c7d7eac526a7aed582"
_OTHER = f"sha256:{'0' * 64}"
_CHART = "Release/pool"


def _of_lessons() -> Iterator[Case]:
    """Every case of the lessons, in the rendered Deployment."""
    for case in lessons.CASES:
        make = broken if case.broken else sound
        yield make(case.lesson, case.what, lay_over(case), stack=case.stack)


def lay_over(case: lessons.Case) -> Edit:
    """The case's options in the servers; some are as the stack's own."""

    def edit(resources: Resources) -> None:
        key = find(resources, DEPLOYMENT)
        inputs, outputs = (deepcopy(dict(props)) for props in (resources[key].inputs, resources[key].outputs))
        case.lay_over(inputs)
        case.lay_over(outputs)
        resources[key] = replace(resources[key], inputs=inputs, outputs=outputs)

    return edit


def _image(tag: str) -> str:
    return f"{_REGISTRY}/vllm/vllm-openai:{tag}"


def _runs(image: str) -> Edit:
    return put(DEPLOYMENT, f"{CONTAINER}.image", value=image)


def _model(name: str) -> Edit:
    return put(DEPLOYMENT, f"{CONTAINER}.args.0", value=name)


_REFUSED = Rule("flags-vllm-refuses")

OF_RESOURCES = (
    _REFUSED.broken("a switch with a value", flag(DEPLOYMENT, "--enable-prefix-caching=true"), stack="cud"),
    _REFUSED.broken("an option of former releases", flag(DEPLOYMENT, "--disable-log-requests")),
    _REFUSED.sound("a release that is not known", flag(DEPLOYMENT, "--new=1"), _runs("vllm/vllm-openai:v0.25.0")),
    broken("image-not-pinned", "the tag alone, of a release with a digest", _runs(_image("v0.18.1"))),
    broken(
        "image-not-pinned",
        "what initialises a benchmark",
        put("Job/benchmark", f"{POD}.initContainers.0.image", value="vllm/vllm-openai:v0.18.1"),
        stack="spot",
    ),
    sound("image-not-pinned", "the tag alone, of a release without one", _runs(_image("v0.18.0")), stack="cud"),
    sound("image-not-pinned", "a digest without a tag", _runs(f"org/app@{_OTHER}")),
    broken("image-of-another-digest", "the tag changed alone", _runs(_image(f"v0.18.1@{_OTHER}"))),
    sound("image-of-another-digest", "a tag of one's own", _runs(_image(f"ours@{_OTHER}"))),
    broken("advisories-in-production", "a release with one", _runs(_image(f"v0.31.0@{_OTHER}")), stack="prod"),
    sound("advisories-in-production", "a test", _runs(_image(f"v0.31.0@{_OTHER}"))),
    sound("advisories-in-production", "the current release", _runs(_image(f"v0.33.0-cu130@{_OTHER}")), stack="prod"),
    broken("chart-not-pinned", "no version", drop(_CHART, "version"), stack="gateway"),
    broken("chart-not-pinned", "a range", put(_CHART, "version", value="^1.4.0"), stack="gateway"),
    sound("chart-not-pinned", "a candidate", put(_CHART, "version", value="1.4.0-rc.1"), stack="gateway"),
    broken(
        "model-not-pinned",
        "the repository at a branch instead of the volume",
        _model(_REPOSITORY),
        flag(DEPLOYMENT, "--revision=main"),
        stack="spot",
    ),
    broken("model-not-pinned", "no revision", _model(_REPOSITORY)),
    broken("model-not-pinned", "a short commit", _model(_REPOSITORY), flag(DEPLOYMENT, f"--revision={_COMMIT[:12]}")),
    sound("model-not-pinned", "a commit", _model(_REPOSITORY), flag(DEPLOYMENT, f"--revision={_COMMIT}")),
    *(sound("model-not-pinned", name, _model(name)) for name in ("gs://bucket/m", "./m", "$(MODEL)")),
)
CASES = (*_of_lessons(), *OF_RESOURCES)
