"""The provider's options for an object: pulumi.com annotations and custom timeouts."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from fleet.preview.record.recording import RecordedResource
from fleet.preview.record.values import reveal

# Source: pulumi-kubernetes, provider/pkg/metadata/annotations.go.
_SKIP_AWAIT: Final = "pulumi.com/skipAwait"
_WAIT_FOR: Final = "pulumi.com/waitFor"
_REPLACE_UNREADY: Final = "pulumi.com/replaceUnready"

# Go's time.ParseDuration, used by the engine.
_DURATION: Final = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(ns|us|µs|ms|s|m|h)")
_SECONDS: Final = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}

Operation = Literal["create", "update", "delete"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The provider's options for one object."""

    skip_await: bool = False
    wait_for: tuple[str, ...] = ()
    """Every expression must hold; each begins with `jsonpath=` or `condition=`."""
    replace_unready: bool = False


def options_of(manifest: Mapping[str, Any]) -> Options:
    """Options from an object's annotations. Raises ValueError for a waitFor that the provider refuses."""
    annotations = (manifest.get("metadata") or {}).get("annotations") or {}
    return Options(
        skip_await=annotations.get(_SKIP_AWAIT) == "true",
        wait_for=_expressions(annotations[_WAIT_FOR]) if annotations.get(_WAIT_FOR) else (),
        replace_unready=annotations.get(_REPLACE_UNREADY) == "true",
    )


def annotated(resource: RecordedResource) -> Options:
    """The options of a recorded resource."""
    return options_of(reveal(dict(resource.inputs)))


def _expressions(text: str) -> tuple[str, ...]:
    try:
        listed = json.loads(text)
    except ValueError:
        listed = None
    values = listed if isinstance(listed, list) and all(isinstance(one, str) for one in listed) else [text]
    if not values:
        raise ValueError(f"{_WAIT_FOR} is an empty list; write at least one condition")
    for one in values:
        if not one.startswith(("jsonpath=", "condition=")):
            raise ValueError(f'{_WAIT_FOR}: expected a "jsonpath=" or "condition=" prefix, got "{one}"')
    return tuple(values)


def duration_seconds(text: str) -> float:
    """Seconds of a Go duration such as "1h30m". Raises ValueError for anything else."""
    parts = _DURATION.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise ValueError(f'"{text}" is not a duration; write for example "90s", "45m" or "1h30m"')
    return sum(float(number) * _SECONDS[unit] for number, unit in parts)


def custom_timeout_seconds(resource: RecordedResource, operation: Operation) -> float | None:
    """The program's timeout of an operation; None if unset or zero."""
    text = resource.custom_timeouts.get(operation)
    return (duration_seconds(text) or None) if text else None
