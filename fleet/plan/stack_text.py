"""Edits single keys of a stack file and preserves the rest: comments, order, quotes.

ruamel.yaml returns each file that it accepts byte for byte; a form that it does not is refused. The result is read again as the program
reads it and compared with the intended value.
"""

from __future__ import annotations

import io
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.error import CommentMark, YAMLError
from ruamel.yaml.scalarstring import DoubleQuotedScalarString
from ruamel.yaml.tokens import CommentToken

from facts.finding import Finding
from settings.problems import SettingsError
from settings.strict_yaml import load

_PLAIN: Final = re.compile(r"[A-Za-z][A-Za-z0-9_./-]*")
"""Texts that need no quotes, except for the words below: the engine takes others for numbers, such as 0.33.0."""
_WORDS: Final = frozenset({"true", "false", "null", "yes", "no", "on", "off", "y", "n"})

_NO_TOKENS: Final = (None, None, None, None)

Path = Sequence[str]
"""Keys from the top of the file: `("config", "vllm-fleet:server", "engine")`."""


class StackText:
    """The text of a stack file, edited in place. Raises SettingsError for a form that would not come back as it is."""

    def __init__(self, text: str, *, name: str, stack: str) -> None:
        self._name, self._stack = name, stack
        self._line_ends, self._ends = "\r\n" if "\r\n" in text else "\n", text.endswith("\n")
        try:
            self._file = round_trip().load(text.replace("\r\n", "\n"))
        except YAMLError:
            raise self._not_edited() from None
        if self.text != text:
            raise self._not_edited()

    @property
    def text(self) -> str:
        """The file with its original line endings, including a missing last one."""
        text = dumped(self._file)
        return (text if self._ends else text.removesuffix("\n")).replace("\n", self._line_ends)

    def get(self, path: Path) -> Any:
        """The value, or None."""
        found: Any = self._data()
        for key in path:
            found = found.get(key) if isinstance(found, Mapping) else None
        return found

    def set(self, path: Path, value: Any) -> None:
        """Write the value, and missing parent sections. Raises SettingsError."""
        wanted = self._data()
        inner: Any = wanted
        for key in path[:-1]:
            inner[key] = inner = dict(inner.get(key) or {})
        inner[path[-1]] = value
        section = self._file
        for depth, key in enumerate(path[:-1]):
            if not isinstance(section.get(key), Mapping) or not section[key]:
                for name in reversed(path[depth + 1 :]):
                    value = {name: value}
                path = path[: depth + 1]
                break
            section = section[key]
        key = path[-1]
        if key in section:
            section[key] = styled(value, 0)
        else:
            self._insert(section, len(section), key, styled(value, 0), column=2 * (len(path) - 1))
        self._hold(wanted)

    def remove(self, path: Path) -> None:
        """Remove the key, if present, and sections that become empty. Raises SettingsError."""
        if path[-1] not in (self.get(path[:-1]) or ()):
            return
        while len(path) > 2 and list(self.get(path[:-1])) == [path[-1]]:
            path = path[:-1]
        wanted = self._data()
        inner: Any = wanted
        section = self._file
        for key in path[:-1]:
            inner, section = inner[key], section[key]
        del inner[path[-1]]
        keys = list(section)
        place = keys.index(path[-1])
        behind = _behind(section, path[-1])
        del section[path[-1]]
        if place:
            _put_behind(section, keys[place - 1], _behind(section, keys[place - 1]) + behind)
        elif behind:
            column = CommentMark(2 * (len(path) - 1))
            section.ca.comment = [
                None,
                [CommentToken(f"{line.strip()}\n", column, None) for line in behind.splitlines()],
            ]
        self._hold(wanted)

    def _insert(self, section: CommentedMap, place: int, key: str, value: Any, *, column: int) -> None:
        """Insert a key; comments of the next section stay above that, those of the section before stay below it."""
        keys = list(section)
        if not keys:
            section[key] = value
            return
        lines = _behind(section, keys[place - 1]).splitlines(keepends=True)
        # At the end of a section, what has its indentation is about it.
        column -= place == len(keys)
        mine = len(lines)
        while mine and lines[mine - 1].strip() and len(lines[mine - 1]) - len(lines[mine - 1].lstrip()) <= column:
            mine -= 1
        while mine and not lines[mine - 1].strip():
            mine -= 1
        section.insert(place, key, value)
        _put_behind(section, keys[place - 1], "".join(lines[:mine]))
        _put_behind(section, key, "".join(lines[mine:]))

    def _data(self) -> dict[str, Any]:
        found: dict[str, Any] = load(dumped(self._file).encode(), name=self._name, stack=self._stack) or {}
        return found

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


def round_trip() -> YAML:
    """Reads and writes the form of the stack files, which the engine writes, too."""
    yaml = YAML()
    yaml.preserve_quotes = True
    yaml.width = 1_000_000
    yaml.indent(mapping=2, sequence=4, offset=2)
    yaml.representer.add_representer(
        type(None), lambda representer, _: representer.represent_scalar("tag:yaml.org,2002:null", "null")
    )
    return yaml


def dumped(value: Any) -> str:
    """The value as text."""
    stream = io.StringIO()
    round_trip().dump(value, stream)
    return stream.getvalue()


def styled(value: Any, levels: int) -> Any:
    """A value in the form that the engine writes: mappings of so many levels a line for each key, deeper ones and lists on one line."""
    if isinstance(value, str) and (not _PLAIN.fullmatch(value) or value.lower() in _WORDS):
        return DoubleQuotedScalarString(value)
    if isinstance(value, Mapping):
        made: Any = CommentedMap({key: styled(one, levels - 1) for key, one in value.items()})
    elif isinstance(value, list | tuple):
        made = CommentedSeq(styled(one, 0) for one in value)
    else:
        return value
    if levels <= 0 or isinstance(value, list | tuple):
        made.fa.set_flow_style()
    return made


def _last(section: Any, key: Any) -> tuple[Any, Any]:
    """The innermost value at the end of `section[key]`, as its section and key: ruamel.yaml keeps what follows a value there."""
    value = section[key]
    while isinstance(value, CommentedMap | CommentedSeq) and value and not value.fa.flow_style():
        section, key = value, list(value)[-1] if isinstance(value, CommentedMap) else len(value) - 1
        value = section[key]
    return section, key


def _behind(section: Any, key: Any) -> str:
    """The lines of comments after `section[key]`, without that on its own line."""
    section, key = _last(section, key)
    token = section.ca.items.get(key, _NO_TOKENS)[_place(section)]
    # Behind a value on one line.
    end = "".join(f"{' ' * one.start_mark.column}{one.value}" for one in section.ca.end or ())
    return ("" if token is None else str(token.value).partition("\n")[2]) + end


def _put_behind(section: Any, key: Any, lines: str) -> None:
    section, key = _last(section, key)
    if section.ca.end:
        section.ca.end.clear()
    tokens, place = section.ca.items.setdefault(key, list(_NO_TOKENS)), _place(section)
    if tokens[place] is not None:
        tokens[place].value = str(tokens[place].value).partition("\n")[0] + f"\n{lines}"
    elif lines:
        tokens[place] = CommentToken(f"\n{lines}", CommentMark(0), None)


def _place(section: Any) -> int:
    return 2 if isinstance(section, CommentedMap) else 0
