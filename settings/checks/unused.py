"""Settings that another setting switches off: they would do nothing, without a word."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

from facts.finding import Finding
from settings.row import Row

if TYPE_CHECKING:
    from settings.stack import Settings

FILE_WORKLOADS: Final = ("sharegpt", "trace")
"""Workloads that take their requests from a file."""
_WITHOUT_EFFECT = Row("without-effect", "another setting switches it off", "remove it, or set what it needs")
_NEEDED: Final[tuple[tuple[tuple[str, ...], str, Callable[[Settings], bool]], ...]] = (
    (
        ("network", "cluster", "budget", "registry", "results"),
        "a cluster of the stack's own; of another's they are in its stack file",
        lambda stack: stack.owns_platform,
    ),
    (
        ("platform.imagePrefix", "platform.resultsBucket"),
        "platform.kubeconfig",
        lambda stack: stack.platform.kubeconfig is not None,
    ),
    (
        ("gateway.hostname", "gateway.address", "gateway.tls.certificate"),
        "gateway.enabled",
        lambda stack: stack.gateway.enabled,
    ),
    (("gateway.tls.certificate",), "gateway.hostname", lambda stack: stack.gateway.hostname is not None),
    (
        ("gateway.epp",),
        "endpoint.kind: inferenceGateway",
        lambda stack: stack.has_picker or not stack.gateway.enabled,
    ),
    (
        ("server.tensorParallelReason",),
        "server.engine.tensorParallelSize above 1",
        lambda stack: stack.serving.engine.tensor_parallel_size > 1,
    ),
    (("endpoint.router",), "endpoint.kind: leastRequest", lambda stack: stack.has_router),
    (
        ("benchmark.dataset",),
        f"benchmark.workload {' or '.join(FILE_WORKLOADS)}",
        lambda stack: stack.benchmark.workload in FILE_WORKLOADS,
    ),
    (("monitoring.alerts", "monitoring.dashboard"), "monitoring.enabled", lambda stack: stack.monitoring.enabled),
    (("batch.id",), "batch.template", lambda stack: stack.batch.template is not None),
    (("spending.every",), "spending.limit", lambda stack: stack.spending is None or stack.spending.limit is not None),
)
"""Keys, what they need, and whether a stack has it."""
_SWITCHED: Final[tuple[tuple[str, str, Callable[[Settings], bool]], ...]] = (
    ("batch", "enabled", lambda stack: stack.batch.enabled),
    ("server.scaling", "mode", lambda stack: stack.server.scaling.mode != "none"),
)
"""Sections that may be prepared before their switch is set."""


def unused(settings: Settings) -> Iterator[Finding]:
    """A finding for each key that is given and has no effect."""
    told: set[str] = set()
    for paths, needed, has in _NEEDED:
        for path in paths:
            if path not in told and not has(settings) and _given(settings, path):
                told.add(path)
                yield _WITHOUT_EFFECT(path, "(set)", f"left out without {needed}")
    for path, switch, is_on in _SWITCHED:
        section = _given(settings, path)
        if section and not is_on(settings) and section.model_fields_set - {switch}:
            yield _WITHOUT_EFFECT(path, "(set)", f"any; without effect until {path}.{switch} is set", "note")


def _given(section: Any, path: str) -> Any:
    """The value of a key that the stack file has; None for one that it leaves out."""
    for name in path.split("."):
        fields = type(section).model_fields
        field = next(field for field, info in fields.items() if name == (info.alias or field))
        if field not in section.model_fields_set:
            return None
        section = getattr(section, field)
        if section is None:
            return None
    return section
