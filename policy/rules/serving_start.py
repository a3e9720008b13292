"""What a vLLM server is: its image, its weights, its host, what it declares and how long it may take to start."""

from __future__ import annotations

import re
from collections.abc import Iterator
from math import ceil
from typing import Final

from engines import (
    CONCURRENCY_ANNOTATION,
    CONTEXT_ANNOTATION,
    Engine,
    each_engine,
)
from facts.engines import CORES_PER_API_SERVER, CORES_PER_ENGINE, DEFAULT_READY_SECONDS, mistakes
from pods import pods, quantity
from rule import Finding, Resource, Rule, Setting, Settings, dig

_CHECKED: Final = (0, 18)
_COMMIT: Final = re.compile(r"[0-9a-f]{40}")
_ELSEWHERE: Final = re.compile(r"(/|\.|[a-z0-9]+://)")
_READY_TIMEOUT: Final = "VLLM_ENGINE_READY_TIMEOUT_S"


def _accuracy(engine: Engine, _: Settings) -> Iterator[Finding]:
    if not engine.is_hybrid or not engine.server.pod.is_on_b200 or engine.env("VLLM_USE_DEEP_GEMM") == "0":
        return
    if engine.release == (0, 18, 0):
        yield engine.found(f"the image is {engine.tag} and VLLM_USE_DEEP_GEMM is not 0")


def _unchecked_release(engine: Engine, _: Settings) -> Iterator[Finding]:
    release = engine.release
    if release is None or release[:2] != _CHECKED:
        yield engine.found(f"the image's tag is {engine.tag or 'not given'}")


def _refused_flags(engine: Engine, _: Settings) -> Iterator[Finding]:
    wrong = mistakes(engine.flags)
    if not wrong:
        return
    release = engine.release
    if release is not None and release[:2] == _CHECKED:
        for mistake in wrong:
            yield engine.found(mistake)


def _image_digest(engine: Engine, _: Settings) -> Iterator[Finding]:
    if "@sha256:" not in engine.image:
        yield engine.found(f"the image is {engine.image or 'not given'}, without a digest")


def _latest(resource: Resource, _: Settings) -> Iterator[Finding]:
    for pod in pods(resource):
        for container in (*pod.init_containers, *pod.containers):
            name, _at, digest = container.image.partition("@")
            tag = name.rpartition("/")[2].partition(":")[2]
            if not digest and tag in ("", "latest"):
                yield Finding(
                    what=f"{container.path}.image is {container.image or 'not given'}, "
                    + ("whose tag is latest" if tag else "which means the tag latest")
                )


def _revision(engine: Engine, _: Settings) -> Iterator[Finding]:
    model = engine.flags.model
    # A path or a bucket is a release of its own; what it holds is not said by a flag.
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


def _starved(engine: Engine, settings: Settings) -> Iterator[Finding]:
    if not engine.server.pod.gpus:
        return
    cores = engine.server.container.requested("cpu")
    engines, api_servers = engine.flags.engines, engine.flags.api_servers
    needed = ceil(engines * settings["coresPerEngine"] + api_servers * settings["coresPerApiServer"] + 1)
    if cores is None or cores < needed:
        given = "no CPU is requested" if cores is None else f"{cores:g} CPUs"
        yield engine.found(
            f"{given} for {engines} engine(s) and {api_servers} API server(s), which need {needed}",
            fix=f"request {needed} CPUs or more; a whole A4 node has about 220 to give",
        )


def _ready_timeout(engine: Engine, _: Settings) -> Iterator[Finding]:
    budget = _startup_seconds(engine)
    if budget is None:
        return
    written = engine.env(_READY_TIMEOUT)
    if written is None and _READY_TIMEOUT in engine.server.container.env_names:
        return  # taken from a ConfigMap or Secret: not known here
    seconds = quantity(written) if written is not None else DEFAULT_READY_SECONDS
    if seconds is not None and seconds < budget:
        yield engine.found(
            f"{_READY_TIMEOUT} is {seconds:g}{'' if written else ', the default'}, "
            f"and the start-up probe allows {budget:g} seconds",
            fix=f"set the variable {_READY_TIMEOUT} to {budget:g}",
        )


def _startup_seconds(engine: Engine) -> float | None:
    """What the start-up probe allows; None without one."""
    probe = dig(engine.server.container.props, "startupProbe")
    if probe is None:
        return None
    period, failures, delay = (
        quantity(dig(probe, key)) for key in ("periodSeconds", "failureThreshold", "initialDelaySeconds")
    )
    # Source: Kubernetes API, defaults of a probe.
    return (10 if period is None else period) * (3 if failures is None else failures) + (delay or 0)


RULES: Final = (
    Rule(
        name="deepgemm-accuracy",
        lesson="deepgemm-accuracy",
        subject="serving",
        statement="Qwen3.5 on B200 does not compute with DeepGEMM.",
        evidence="0.18.0 runs Qwen3.5 on B200 with DeepGEMM, whose scales cost accuracy; 0.18.1 switches it off by itself (both "
        "releases read). Mandatory: every answer is affected and nothing shows it",
        fix="use v0.18.1 and its digest, or set the variable VLLM_USE_DEEP_GEMM to 0",
        level="mandatory",
        severity="critical",
        judge=each_engine(_accuracy),
    ),
    Rule(
        name="image-not-checked",
        lesson="image-not-checked",
        subject="serving",
        statement="The release of vLLM is one that these rules know.",
        evidence="rules read flags and defaults as 0.18 has them; other releases rename, remove and change some. "
        "Advisory: another release may be right",
        fix="check the server's flags against that release, or use v0.18.1",
        level="advisory",
        severity="low",
        judge=each_engine(_unchecked_release),
    ),
    Rule(
        name="flags-vllm-refuses",
        subject="serving",
        statement="Every option is one that this release of vLLM reads.",
        evidence="vLLM 0.18 exits with code 2 on an unknown option and on a switch with a value (its parser, run). "
        "Mandatory: no replica gets ready",
        fix="correct or remove the option; switches are --x and --no-x",
        level="mandatory",
        severity="high",
        judge=each_engine(_refused_flags),
    ),
    Rule(
        name="image-not-pinned",
        subject="serving",
        statement="The image of a model server is pinned by digest.",
        evidence="a tag can be moved: two replicas of one fleet may run two servers, and a measured result belongs to neither. "
        "Mandatory: one line prevents it",
        fix="write the digest behind the tag: registry/name:tag@sha256:...",
        level="mandatory",
        severity="high",
        judge=each_engine(_image_digest),
    ),
    Rule(
        name="image-latest",
        subject="serving",
        statement="No container runs the tag latest.",
        evidence="latest is whatever was pushed last when a node pulled it. Mandatory: a restart is an unreviewed upgrade",
        fix="name a release, and its digest behind it",
        level="mandatory",
        severity="high",
        judge=_latest,
    ),
    Rule(
        name="model-not-pinned",
        subject="serving",
        statement="A model that a server downloads is pinned to a commit of its repository.",
        evidence="weights, tokenizer and chat template of a branch can change under a fleet, and every replica downloads for "
        "itself. Mandatory: answers would change without a change",
        fix="--revision=<commit, 40 hexadecimal digits>",
        level="mandatory",
        severity="high",
        judge=each_engine(_revision),
    ),
    Rule(
        name="needs-not-declared",
        subject="serving",
        statement="A model server declares the traffic it is for.",
        evidence="without the needed context and the offered concurrency, context-far-above-need, context-below-need and "
        "sequences-below-load cannot be judged. Advisory: nothing is known to be wrong",
        fix=f"annotate the pod template: {CONTEXT_ANNOTATION} (longest prompt plus answer) and "
        f"{CONCURRENCY_ANNOTATION} (requests in flight per replica)",
        level="advisory",
        severity="low",
        judge=each_engine(_undeclared),
    ),
    Rule(
        name="cpu-starves-engines",
        lesson="cpu-starves-engines",
        subject="serving",
        statement="Engines and API servers get the cores they keep busy.",
        evidence="one engine keeps 1.1 to 1.3 cores busy (measured on an H200); starved of CPU its GPU waits. "
        "Mandatory: cores cost a hundredth of the GPUs that wait for them",
        fix="request more CPU; a whole A4 node has about 220 to give",
        level="mandatory",
        severity="medium",
        settings=(
            Setting(
                name="coresPerEngine",
                type="number",
                unit="cores",
                default=CORES_PER_ENGINE,
                why="cores that one engine keeps busy",
            ),
            Setting(
                name="coresPerApiServer",
                type="number",
                unit="cores",
                default=CORES_PER_API_SERVER,
                why="cores that one API server keeps busy",
            ),
        ),
        judge=each_engine(_starved),
    ),
    Rule(
        name="engine-ready-timeout",
        lesson="engine-ready-timeout",
        subject="serving",
        statement="The front end waits for its engines as long as the start-up probe does.",
        evidence="the front end gives up on engines that are still loading; vLLM's default of 600 s is the article's whole "
        "start-up. Mandatory: a slow day becomes a crash loop",
        fix=f"set the variable {_READY_TIMEOUT} to the start-up probe's budget",
        level="mandatory",
        severity="medium",
        judge=each_engine(_ready_timeout),
    ),
)
