"""Formats options in verdicts: as keys of a stack file, or as flags and variables of a server.

`Spelling.text` replaces options in braces: `{max-model-len}` becomes `maxModelLen` or `--max-model-len`,
`{max-model-len=4096}` becomes `maxModelLen: 4096` or `--max-model-len=4096`.
"""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, Final

from facts.engines import render
from facts.finding import Finding, Severity
from facts.lessons.lesson import Breach, Lesson
from facts.texts import camel_case

CONTEXT_ANNOTATION: Final = "vllm-fleet.dev/context-tokens"
"""Longest prompt plus output of the expected traffic."""
TENSOR_PARALLEL_REASON_ANNOTATION: Final = "vllm-fleet.dev/tensor-parallel-reason"
"""On the Deployment: why a model that fits one GPU is split over several."""
SHORTEST_REASON: Final = 10
"""Characters of a reason. Assumed: less says nothing."""
CONCURRENCY_ANNOTATION: Final = "vllm-fleet.dev/concurrency-per-replica"
"""Peak requests in flight per replica."""

_IN_BRACES: Final = re.compile(r"\{([A-Za-z][\w.-]*)(?:=([^{}]*))?\}")
_WORDS: Final = {"true": True, "false": False, "null": None}
_AROUND_THE_SERVER: Final[Mapping[str, tuple[str, str]]] = {
    "cpu": ("server.resources.cpu", "the CPU request"),
    "image-tag": ("server.image.tag", "the image's tag"),
    "entrypoint": ("server.engine", "the entry point"),
    "start-up": ("server.startupMinutes", "the startup probe"),
    "needed-context": ("server.needs.contextTokens", CONTEXT_ANNOTATION),
    "offered-concurrency": ("server.needs.concurrencyPerReplica", CONCURRENCY_ANNOTATION),
    "tensor-parallel-reason": ("server.tensorParallelReason", f"the annotation {TENSOR_PARALLEL_REASON_ANNOTATION}"),
    "epp-cpu": ("gateway.epp.cpu", "the endpoint picker's CPU"),
    "epp-replicas": ("gateway.epp.replicas", "the endpoint picker's replica count"),
    "proxy-only-subnet": ("network.proxyOnly.enabled", "the proxy-only subnet"),
}
"""Options that are neither flags nor variables: key in the stack file, and name for a rendered resource."""


_EXTRA_ARGS: Final = "server.engine.extraArgs"
_EXTRA_ENV: Final = "server.engine.extraEnv"


def variable(name: str) -> str:
    """An environment variable as an option of a lesson."""
    return name if name.isupper() else f"${name}"


def is_variable(option: str) -> bool:
    """Whether an option of a lesson is an environment variable."""
    return option.isupper() or option.startswith("$")


def _bare(option: str) -> str:
    return option.removeprefix("$")


class Spelling(ABC):
    """A way to format options."""

    @abstractmethod
    def name(self, option: str) -> str:
        """An option's name."""

    @abstractmethod
    def assignment(self, option: str, value: object) -> str:
        """An option with its value, ready to paste; None removes it."""

    def text(self, template: str) -> str:
        """A text with its options formatted."""
        return _IN_BRACES.sub(self._spelled, template)

    def _spelled(self, match: re.Match[str]) -> str:
        option, value = match[1], match[2]
        return self.name(option) if value is None else self.assignment(option, _WORDS.get(value, value))

    def finding(
        self, rule: Lesson[Any], breach: Breach, *, subject: str, found: object, severity: Severity = "error"
    ) -> Finding:
        """A breach in the same words everywhere, apart from the names of its options."""
        allowed = self.text(breach.allowed)
        if breach.because:
            allowed += f"; {self.text(breach.because)}"
        changes, instead = (
            [self.assignment(option, value) for option, value in options.items()]
            for options in (breach.changes, breach.instead)
        )
        write = self._joined(changes) if changes else self.text(rule.fix)
        if breach.reason:
            allowed += f"; reason: {breach.reason}"
            write, instead = "nothing, if the reason holds", []
        return Finding(
            id=rule.name,
            subject=subject,
            severity="note" if breach.reason else "warning" if breach.is_advisory else severity,
            found=found,
            allowed=allowed,
            why=self.text(breach.why or rule.evidence),
            write=f"{self._joined(instead)}, if that is so; else {write}" if instead else write,
        )

    @staticmethod
    @abstractmethod
    def _joined(assignments: list[str]) -> str: ...


class _OfResources(Spelling):
    """As in a container's arguments and environment."""

    def name(self, option: str) -> str:
        """`--max-model-len`."""
        if option in _AROUND_THE_SERVER:
            return _AROUND_THE_SERVER[option][1]
        return _bare(option) if is_variable(option) else f"--{option}"

    def assignment(self, option: str, value: object) -> str:
        """`--max-model-len=4096`."""
        if value is None:
            return f"no {self.name(option)}"
        if option in _AROUND_THE_SERVER:
            return f"set {self.name(option)} to {json.dumps(value) if isinstance(value, Mapping) else value}"
        if is_variable(option):
            # vLLM reads 0 and 1.
            return f"{_bare(option)}={int(value) if isinstance(value, bool) else value}"
        return render({option: value})[0]

    def found(self, breach: Breach) -> str:
        """The option and its value."""
        value = breach.value
        state = (
            "not set" if value is None else ("set" if value else "off") if isinstance(value, bool) else _shown(value)
        )
        return f"{self.name(breach.option)} is {state}"

    @staticmethod
    def _joined(assignments: list[str]) -> str:
        *first, last = assignments
        return f"{', '.join(first)} and {last}" if first else last


RESOURCES: Final = _OfResources()


class StackFile(Spelling):
    """As in a stack file. `paths`: key of every option below the namespace, such as `server.engine.maxModelLen`."""

    def __init__(self, paths: Mapping[str, str]) -> None:
        self._paths = {option: path for option, (path, _) in _AROUND_THE_SERVER.items()} | dict(paths)

    def path(self, option: str) -> str:
        """Key of an option below the namespace. An option without a field is an extra argument or an extra variable."""
        name, *inner = option.split(".")
        if name in self._paths:
            return ".".join((self._paths[name], *map(camel_case, inner)))
        return f"{_EXTRA_ENV}.{_bare(option)}" if is_variable(option) else _EXTRA_ARGS

    def is_extra(self, option: str) -> bool:
        """Whether an option is a flag without a field."""
        return self.path(option) == _EXTRA_ARGS

    def name(self, option: str) -> str:
        """`maxModelLen`, the flag of an extra argument, or the full key of other settings."""
        if self.is_extra(option):
            return RESOURCES.name(option)
        return self.path(option).removeprefix("server.engine.")

    def assignment(self, option: str, value: object) -> str:
        """`maxModelLen: 4096`."""
        path = self.path(option)
        if value is None and path.startswith((_EXTRA_ARGS, _EXTRA_ENV)):
            return f"{path.split('.')[2]}: without {RESOURCES.name(option)}"
        if self.is_extra(option):
            return f"extraArgs: [{json.dumps(RESOURCES.assignment(option, value))}]"
        *outer, last = self.name(option).split(".")
        written = f"{last}: {_yaml(value)}"
        for key in reversed(outer):
            written = f"{key}: {{{written}}}"
        return written

    @staticmethod
    def _joined(assignments: list[str]) -> str:
        return ", ".join(assignments)


def _shown(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _yaml(value: object) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{camel_case(key)}: {_yaml(one)}" for key, one in value.items()) + "}"
    return value if isinstance(value, str) else json.dumps(value)
