"""Edits single keys of a stack file and preserves every other byte: comments, order, quotes, blank lines.

ruamel.yaml would reformat the whole file. The parser's marks locate a value; the result is
parsed again and compared with the intended value, so that an unsupported form is refused.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import yaml

from facts.finding import Finding
from settings.problems import SettingsError
from settings.strict_yaml import load

_PLAIN: Final = re.compile(r"[A-Za-z][A-Za-z0-9_./-]*")
"""Texts that need no quotes, except for the words below."""
_WORDS: Final = frozenset({"true", "false", "null", "yes", "no", "on", "off", "y", "n"})

Path = Sequence[str]
"""Keys from the top of the file: `("config", "vllm-fleet:server", "engine")`."""


class StackText:
    """The text of a stack file, edited in place."""

    def __init__(self, text: str, *, name: str, stack: str) -> None:
        self._name, self._stack = name, stack
        self._line_ends = "\r\n" if "\r\n" in text else "\n"
        self._ends = text.endswith("\n")
        lines = text.replace("\r\n", "\n") if self._line_ends == "\r\n" else text
        self._lf = lines if self._ends else f"{lines}\n"
        if self.text != text:
            raise self._not_edited()

    @property
    def text(self) -> str:
        """The file with its original line endings, including a missing last one."""
        return (self._lf if self._ends else self._lf.removesuffix("\n")).replace("\n", self._line_ends)

    def get(self, path: Path) -> Any:
        """The value, or None."""
        found: Any = self._data()
        for key in path:
            found = found.get(key) if isinstance(found, Mapping) else None
        return found

    def set(self, path: Path, value: Any) -> None:
        """Write the value, and missing parent sections. Raises SettingsError."""
        wanted = self._data()
        inner: dict[str, Any] = wanted
        for key in path[:-1]:
            inner[key] = dict(inner.get(key) or {})
            inner = inner[key]
        inner[path[-1]] = value
        parent, depth = self._deepest(path)
        if depth == len(path) or not _has_entries(parent):
            # In place of the value, or of an empty section.
            start, end = parent.start_mark.index, end_of(parent)
            rest = path[depth:]
            for key in reversed(rest):
                value = {key: value}
            self._replace(start, end, _flow(value), before=" " if start == end else "")
        else:
            key, *rest = path[depth:]
            for one in reversed(rest):
                value = {one: value}
            entry = f"{_scalar(key)}: {_flow(value)}"
            last = parent.value[-1][1]
            if parent.flow_style:
                self._replace(end_of(last), end_of(last), f", {entry}")
            else:
                at = self._line_end(end_of(last))
                self._replace(at, at, f"\n{' ' * parent.value[0][0].start_mark.column}{entry}")
        self._hold(wanted)

    def remove(self, path: Path) -> None:
        """Remove the key, if present, and sections that become empty. Raises SettingsError."""
        if path[-1] not in (self.get(path[:-1]) or ()):
            return
        while len(path) > 2 and list(self.get(path[:-1])) == [path[-1]]:
            path = path[:-1]
        wanted = self._data()
        inner: Any = wanted
        for key in path[:-1]:
            inner = inner[key]
        del inner[path[-1]]
        parent, _ = self._deepest(path[:-1])
        names = [key.value for key, _ in parent.value]
        place = names.index(path[-1])
        key, value = parent.value[place]
        if parent.flow_style:
            start = end_of(parent.value[place - 1][1]) if place else key.start_mark.index
            end = parent.value[1][0].start_mark.index if not place and len(names) > 1 else end_of(value)
            self._replace(start, end, "")
        else:
            start = self._lf.rfind("\n", 0, key.start_mark.index) + 1
            self._replace(start, self._line_end(end_of(value)) + 1, "")
        self._hold(wanted)

    def _data(self) -> dict[str, Any]:
        found: dict[str, Any] = load(self._lf.encode(), name=self._name, stack=self._stack) or {}
        return found

    def _deepest(self, path: Path) -> tuple[Any, int]:
        """The deepest existing node of the path, and its depth."""
        node: Any = yaml.compose(self._lf, Loader=yaml.SafeLoader)
        for depth, name in enumerate(path):
            entries = node.value if isinstance(node, yaml.MappingNode) else []
            found = next((value for key, value in entries if key.value == name), None)
            if found is None:
                return node, depth
            node = found
        return node, len(path)

    def _line_end(self, at: int) -> int:
        """End of the line, including its comment."""
        return self._lf.index("\n", at)

    def _replace(self, start: int, end: int, text: str, *, before: str = "") -> None:
        self._lf = f"{self._lf[:start]}{before}{text}{self._lf[end:]}"

    def _hold(self, wanted: Mapping[str, Any]) -> None:
        try:
            found = self._data()
        except SettingsError:
            found = {}
        if found != wanted:
            raise self._not_edited()

    def _not_edited(self) -> SettingsError:
        problem = Finding(
            id="stack-file-not-edited",
            subject=self._name,
            found=None,
            allowed="sections and keys formatted as in the other stack files",
            why="this command cannot edit its format safely; nothing was changed",
            write="the change manually, then run `fleet check`",
        )
        return SettingsError(self._stack, [problem])


def _flow(value: Any) -> str:
    """A value on one line, as YAML."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_scalar(key)}: {_flow(one)}" for key, one in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_flow, value)) + "]"
    return _scalar(value)


def _scalar(value: Any) -> str:
    if isinstance(value, str) and (_PLAIN.fullmatch(value) or value.startswith("vllm-fleet:")):
        return value if value.lower() not in _WORDS else json.dumps(value)
    return json.dumps(value, ensure_ascii=False)


def _has_entries(node: Any) -> bool:
    return isinstance(node, yaml.MappingNode) and bool(node.value)


def end_of(node: Any) -> int:
    """End of a value's own text: the parser places a block's end after the comments that follow it."""
    if isinstance(node, yaml.CollectionNode) and not node.flow_style and node.value:
        last = node.value[-1]
        return end_of(last[1] if isinstance(last, tuple) else last)
    # The mark of a text in block style is at the start of the next line.
    is_block = isinstance(node, yaml.ScalarNode) and node.style in ("|", ">")
    return int(node.end_mark.index) - is_block
