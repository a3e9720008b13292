"""The provider's options for an object: pulumi.com annotations."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

# Source: pulumi-kubernetes, provider/pkg/metadata/annotations.go.
_SKIP_AWAIT: Final = "pulumi.com/skipAwait"
_WAIT_FOR: Final = "pulumi.com/waitFor"
_REPLACE_UNREADY: Final = "pulumi.com/replaceUnready"


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


def _expressions(text: str) -> tuple[str, ...]:
    try:
        listed = json.loads(text)
    except ValueError:
        listed = None
    values = listed if isinstance(listed, list) and all(isinstance(one, str) for one in listed) else [text]
    if not values:
        raise ValueError(f"{_WAIT_FOR} is an empty list; write at least one condition")
    for value in values:
        if not value.startswith(("jsonpath=", "condition=")):
            raise ValueError(f'{_WAIT_FOR}: expected a "jsonpath=" or "condition=" prefix, got "{value}"')
    return tuple(values)
