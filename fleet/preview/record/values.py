"""Values of a recording: plain Python, plus one marker for what is unknown and one for what is secret."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

Value: TypeAlias = Any
"""Text, number, boolean, None, a list or a map of values, `Secret` or `UNKNOWN`."""


class Unknown:
    """A value that is unknown until the real engine runs; compare with `is UNKNOWN`."""

    __slots__ = ()
    _only: Unknown | None = None

    def __new__(cls) -> Unknown:
        """The same object, always."""
        if cls._only is None:
            cls._only = super().__new__(cls)
        return cls._only

    def __repr__(self) -> str:
        return "[unknown]"

    def __reduce__(self) -> str:
        return "UNKNOWN"  # copies and unpickled values stay the same object


UNKNOWN: Final = Unknown()


class Secret:
    """A value that must not be shown. Equal to another secret of the same value; prints as `[secret]`."""

    __slots__ = ("value",)

    def __init__(self, value: Value) -> None:
        self.value: Value = value.value if isinstance(value, Secret) else value

    def __repr__(self) -> str:
        return "[secret]"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and bool(self.value == other.value)

    def __hash__(self) -> int:
        return hash((Secret, repr(self.value)))


def transform(value: Value, leaf: Callable[[Value], Value]) -> Value:
    """Rebuild a value with `leaf` applied to whatever is neither a map nor a list (secrets and unknowns included)."""
    if isinstance(value, dict):
        return {key: transform(item, leaf) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [transform(item, leaf) for item in value]
    return leaf(value)


def reveal(value: Value) -> Value:
    """The value with every secret opened. For what judges or deploys it; never for what prints it."""
    return transform(value, lambda leaf: reveal(leaf.value) if isinstance(leaf, Secret) else leaf)


def merge(base: Value, over: Value) -> Value:
    """`over` laid on `base`: maps are merged key by key, anything else is replaced; secret maps stay secret."""
    if isinstance(base, Secret) and isinstance(over, dict):
        return Secret(merge(base.value, over))
    if isinstance(base, dict) and isinstance(over, dict):
        return base | {key: merge(base[key], item) if key in base else item for key, item in over.items()}
    return over


def paths_of_unknowns(value: Value, path: str = "") -> list[str]:
    """Property paths, such as `spec.ports[0].port`, at which the value is unknown."""
    if value is UNKNOWN:
        return [path or "."]
    if isinstance(value, Secret):
        return paths_of_unknowns(value.value, path)
    if isinstance(value, dict):
        found = (paths_of_unknowns(item, f"{path}.{key}" if path else str(key)) for key, item in value.items())
    elif isinstance(value, (list, tuple)):
        found = (paths_of_unknowns(item, f"{path}[{index}]") for index, item in enumerate(value))
    else:
        return []
    return [one for several in found for one in several]
