"""vLLM servers in rendered resources, and lessons about them as rules of the pack."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from facts.engines import DEFAULT_READY_SECONDS, Flags
from facts.finding import Finding
from facts.lessons.lesson import Lesson
from facts.lessons.served import READY_TIMEOUT, Served
from facts.lessons.words import (
    CONCURRENCY_ANNOTATION,
    CONTEXT_ANNOTATION,
    RESOURCES,
    SHORTEST_REASON,
    TENSOR_PARALLEL_REASON_ANNOTATION,
)
from facts.machines import Gpu
from facts.quantities import quantity
from pods import Server, servers
from rule import Resource, ResourceRule, Settings, dig, finding

MODEL_ANNOTATION: Final = "vllm-fleet.dev/model"


@dataclass(frozen=True)
class Engine(Served):
    """One vLLM server container."""

    server: Server
    production: str = ""

    @property
    def flags(self) -> Flags:
        """Its parsed options."""
        return self.server.flags

    @property
    def label(self) -> str:
        """Name in messages."""
        return self.server.label

    def found(self, what: str, *, why: str = "", fix: str = "") -> Finding:
        """A finding about this server."""
        return finding(f"{self.label}: {what}", why=why, write=fix)

    @cached_property
    def model_names(self) -> tuple[str, ...]:
        """Path or repository, served name, annotated name."""
        names = (self.flags.model, self.flags.text("served-model-name"), self.server.pod.annotation(MODEL_ANNOTATION))
        return tuple(name for name in names if name)

    @property
    def image(self) -> str:
        """Its image."""
        return self.server.container.image

    @property
    def tag(self) -> str:
        """The image's tag."""
        name = self.image.partition("@")[0].rpartition("/")[2]
        return name.partition(":")[2]

    def env(self, name: str) -> str | None:
        """From the container."""
        return self.server.container.env(name)

    @property
    def variables(self) -> Mapping[str, str | None]:
        """From the container, and from its command."""
        container = self.server.container
        assigned = container.started.variables if container.started else {}
        return {**{name: self.env(name) for name in container.env_names}, **assigned}

    @property
    def tensor_parallel_reason(self) -> str:
        """From the annotation."""
        given = self.server.pod.annotation(TENSOR_PARALLEL_REASON_ANNOTATION) or ""
        return given if len(given.strip()) >= SHORTEST_REASON else ""

    @property
    def why_production(self) -> str:
        """As the stack's resources say, where a rule of the stack asks."""
        return self.production

    @property
    def gpu(self) -> Gpu | None:
        """From the pod's selectors."""
        return self.server.pod.gpu

    @property
    def gpus(self) -> int:
        """From the containers of its pod."""
        return self.server.pod.gpus

    @property
    def cores(self) -> float | None:
        """From the container."""
        return self.server.container.requested("cpu")

    @property
    def ready_seconds(self) -> float | None:
        """From the variable; vLLM's default where unset, None where unknown."""
        written = self.env(READY_TIMEOUT)
        if written is not None:
            return quantity(written)
        # Unknown where it comes from a ConfigMap or Secret.
        return None if READY_TIMEOUT in self.server.container.env_names else DEFAULT_READY_SECONDS

    @property
    def startup_seconds(self) -> float | None:
        """From the startup probe, with Kubernetes' defaults."""
        probe = dig(self.server.container.props, "startupProbe")
        if probe is None:
            return None
        period, failures, delay = (
            quantity(dig(probe, key)) for key in ("periodSeconds", "failureThreshold", "initialDelaySeconds")
        )
        # Source: Kubernetes API, defaults of a probe.
        return (10 if period is None else period) * (3 if failures is None else failures) + (delay or 0)

    @property
    def needed_context_tokens(self) -> int | None:
        """From the annotation."""
        return _whole(self.server.pod.annotation(CONTEXT_ANNOTATION))

    @property
    def offered_concurrency(self) -> int | None:
        """From the annotation."""
        return _whole(self.server.pod.annotation(CONCURRENCY_ANNOTATION))

    @property
    def answering_engines(self) -> int:
        """From the options of a router in the pod that knows prefill and decode; all without one."""
        words = (word for container in self.server.pod.every_container for word in container.words)
        return sum(word == "--decode" for word in words) or self.flags.engines


def each_engine(
    judge: Callable[[Engine, Settings], Iterator[Finding]],
) -> Callable[[Resource, Settings], Iterator[Finding]]:
    """Apply a check of one vLLM server to every server of a resource."""

    def over(resource: Resource, settings: Settings) -> Iterator[Finding]:
        if "engines" not in resource.parsed:
            resource.parsed["engines"] = tuple(Engine(server) for server in servers(resource))
        for engine in resource.parsed["engines"]:
            yield from judge(engine, settings)

    return over


def engine_rule(lesson: Lesson[Served]) -> ResourceRule:
    """A lesson about vLLM servers as a rule of the pack."""

    def judge(engine: Engine, settings: Settings) -> Iterator[Finding]:
        for breach in lesson.judge(engine, settings):
            found = f"{engine.label}: {RESOURCES.found(breach)}"
            yield RESOURCES.finding(lesson, breach, subject="", found=found)

    return ResourceRule(judge=each_engine(judge), **described(lesson))


def described(lesson: Lesson[Any]) -> dict[str, Any]:
    """A lesson's texts, level and settings as arguments of a rule."""
    return {
        "name": lesson.name,
        "subject": lesson.subject,
        "statement": lesson.statement,
        "evidence": f"{RESOURCES.text(lesson.evidence)}. {lesson.level.capitalize()}: {lesson.level_reason}",
        "fix": RESOURCES.text(lesson.fix),
        "level": lesson.level,
        "severity": lesson.severity,
        "settings": lesson.settings,
    }


def _whole(text: str | None) -> int | None:
    return int(text) if text is not None and text.strip().isdecimal() else None
