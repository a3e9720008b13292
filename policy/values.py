"""Properties of resources as rules read them: plain data, except where something is unknown in a preview.

Reading an unknown value raises `UnknownValueError`, so that it stops only the rules that need it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

UNKNOWN_TEXT: Final = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"
_UNKNOWN: Final[Mapping[str, str]] = {
    "1c4a061d-8072-4f0a-a4cb-0ff528b18fe7": "boolean",
    "3eeb2bf0-c639-47a8-9e75-3b44932eb421": "number",
    UNKNOWN_TEXT: "string",
    "6a19a0b0-7e62-4c92-b797-7f8e31da9cc2": "array",
    "030794c1-ac77-496b-92df-f27374a8bd58": "asset",
    "e48ece36-62e2-4504-bad9-02848725956a": "archive",
    "dd056dcd-154b-4c76-9bd3-c8f88648b5ff": "object",
}
"""What the engine sends in place of an unknown value, and its type. Source: pulumi, sdk/go/common/resource/plugin/rpc.go."""
_KIND: Final = "4dabf18193072939515e22adb298388d"
_SIGNED: Final = "1b47061264138c4ac30d75fd1eb44270"
"""Key and value that mark a secret. Source: pulumi, sdk/go/common/resource/sig/sig.go."""
_Path = tuple[str | int, ...]


class UnknownValueError(Exception):
    """A value that a preview cannot know was read."""

    def __init__(self, type_: str, path: _Path) -> None:
        super().__init__(f"{type_} value at .{'.'.join(map(str, path))} can't be known during preview")


def readable(value: Any, path: _Path = ()) -> Any:
    """JSON data of the engine for rules: secrets are bare, and a map or list with an unknown value guards it."""
    if isinstance(value, dict):
        if value.get(_KIND) == _SIGNED:
            return readable(value.get("value"), path)
        items = {key: readable(one, (*path, key)) for key, one in value.items()}
        return _Map(items, path) if any(map(_is_unknown, items.values())) else items
    if isinstance(value, list):
        parts = [readable(one, (*path, index)) for index, one in enumerate(value)]
        return _List(parts, path) if any(map(_is_unknown, parts)) else parts
    return value


def _is_unknown(value: Any) -> bool:
    return isinstance(value, str) and value in _UNKNOWN


class _Map(Mapping[str, Any]):
    """A map with an unknown value. Its keys are known."""

    def __init__(self, items: Mapping[str, Any], path: _Path) -> None:
        self._items, self._path = items, path

    def __getitem__(self, key: str) -> Any:
        value = self._items[key]
        if _is_unknown(value):
            raise UnknownValueError(_UNKNOWN[value], (*self._path, key))
        return value

    def __contains__(self, key: object) -> bool:
        return key in self._items

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)


class _List(Sequence[Any]):
    """A list with an unknown item. Its length is known."""

    def __init__(self, items: Sequence[Any], path: _Path) -> None:
        self._items, self._path = items, path

    def __getitem__(self, index: Any) -> Any:
        value = self._items[index]
        if _is_unknown(value):
            raise UnknownValueError(_UNKNOWN[value], (*self._path, index))
        return _List(value, self._path) if isinstance(index, slice) else value

    def __len__(self) -> int:
        return len(self._items)
