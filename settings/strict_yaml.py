"""Reads YAML in one pass over the parser's events.

Accepts only what all YAML parsers agree on: the engine uses go-yaml v3, this module libyaml. Source: gopkg.in/yaml.v3,
README ("Compatibility") and decode.go (unique keys, `<<`, integers that become floats).
"""

from __future__ import annotations

import re
from typing import Any, Final, NoReturn

import yaml

from facts.finding import Finding
from facts.strict_json import MOST_ITEMS
from settings.problems import SettingsError
from settings.sections.section import NAMESPACE

_LARGEST: Final = 2**53
"""Larger integers lose precision as floats, and JSON parsers differ."""
_TAG: Final = "tag:yaml.org,2002:"
_AMBIGUOUS: Final = re.compile(
    r"^(?:y|Y|yes|Yes|YES|no|No|NO|n|N|on|On|ON|off|Off|OFF|[-+]?0[0-9_]+|0[xob][0-9a-fA-F_]+|[-+]?[0-9][0-9_]*_[0-9_]*"
    r"|[0-9]+(?::[0-5]?[0-9])+|\d{4}-\d\d?-\d\d?(?:[Tt ].*)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$"
)
"""Values that YAML 1.1 and 1.2 parsers read differently."""
_WHY: Final = {
    "ambiguous-yaml": (
        "YAML parsers read it differently, and Pulumi's parser is not this one",
        "put it in quotes if it is text; otherwise write true, false or a decimal number",
    ),
    "broken-stack-file": (
        "Pulumi cannot read it, or would read something else",
        "correct the line; an editor that supports the file's schema comment shows where",
    ),
    "duplicate-key": ("Pulumi rejects a file with duplicate keys", "remove one of the two lines"),
}
_Base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Loader(_Base):  # type: ignore[misc]
    """YAML 1.2 scalars only."""


_Loader.yaml_implicit_resolvers = {}
for _kind, _pattern, _first in (
    ("bool", r"^(?:true|True|TRUE|false|False|FALSE)$", "tTfF"),
    ("null", r"^(?:~|null|Null|NULL|)$", ["~", "n", "N", ""]),
    ("int", r"^[-+]?(?:0|[1-9][0-9]*)$", "-+0123456789"),
    ("float", r"^[-+]?(?:[0-9]+\.[0-9]*|\.[0-9]+|[0-9]+(?=[eE]))(?:[eE][-+]?[0-9]+)?$", "-+.0123456789"),
):
    _Loader.add_implicit_resolver(_TAG + _kind, re.compile(_pattern), list(_first))


def load(data: bytes, *, name: str, stack: str) -> Any:
    """The content of the file called `name`. Raises SettingsError with the line and key of every error."""
    reader = _Reader(name)
    try:
        document = reader.document(data)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = mark.line + 1 if mark else data.count(b"\n", 0, getattr(error, "position", 0)) + 1
        # Without the quoted part of the file, which may be a secret.
        told = str(getattr(error, "problem", None) or getattr(error, "reason", None) or "not YAML")
        why = re.sub(r"('\W')|['\"].*\w\w.*['\"]", lambda quoted: quoted[1] or "[...]", told)
        if mark and data.decode(errors="replace")[mark.index : mark.index + 1] == "\t":
            why = "a tab; indent YAML with spaces"
        reader.refuse(f"{line}, column {mark.column + 1}" if mark else line, "invalid YAML", "valid YAML", why=why)
    except RecursionError:
        reader.refuse(1, "hundreds of levels", "a few levels")
    except _StoppedError:
        pass
    if reader.problems:
        raise SettingsError(stack, reader.problems)
    return document


class _StoppedError(Exception):
    """Parsing stopped; the reason is among the problems."""


class _Reader:
    def __init__(self, name: str) -> None:
        self._name = name
        self._nodes = 0
        self.problems: list[Finding] = []

    def document(self, data: bytes) -> Any:
        """The only document of the text; None where there is none."""
        try:
            text = data.decode("utf-8")
        except UnicodeDecodeError as error:
            self._stop(data.count(b"\n", 0, error.start) + 1, "bytes that are not UTF-8", "text in UTF-8")
        loader = _Loader(text)
        try:
            self._resolve, self._next = loader.resolve, loader.get_event
            self._next()
            if isinstance(self._next(), yaml.StreamEndEvent):
                return None
            document = self._value(self._next(), "")
            self._next()
            if not isinstance(event := self._next(), yaml.StreamEndEvent):
                self._stop(event.start_mark.line + 1, "a second document", "one document")
            return document
        finally:
            loader.dispose()

    def _value(self, event: Any, path: str, *, key: bool = False) -> Any:
        line = event.start_mark.line + 1
        if isinstance(event, yaml.AliasEvent):
            why = "each value stands where it counts; aliases of aliases can be millions of values"
            self._stop(line, f"*{event.anchor}", "the value itself instead of an alias", path, why=why)
        self._nodes += 1
        if self._nodes > MOST_ITEMS:
            self._stop(line, f"more than {MOST_ITEMS:,} keys and values", f"at most {MOST_ITEMS:,}", path)
        if event.tag is not None:
            self.refuse(line, event.tag.replace(_TAG, "!!"), "values without tags", path)
        if isinstance(event, yaml.ScalarEvent):
            return self._scalar(event, line, path, key=key)
        if isinstance(event, yaml.MappingStartEvent):
            return self._mapping(path)
        items: list[Any] = []
        while not isinstance(item := self._next(), yaml.SequenceEndEvent):
            items.append(self._value(item, f"{path}[{len(items)}]"))
        return items

    def _mapping(self, path: str) -> dict[str, Any]:
        mapping: dict[str, Any] = {}
        lines: dict[str, int] = {}
        while not isinstance(event := self._next(), yaml.MappingEndEvent):
            line, key = event.start_mark.line + 1, self._value(event, path, key=True)
            # Like every other message, without `config`.
            inner = f"{path}.{key}" if path and path != "config" else str(key)
            if not isinstance(key, str):
                self.refuse(line, key, "text as a key, in quotes if it looks like another type", path)
            # The engine accepts the project's keys with and without their namespace.
            bare = str(key).removeprefix(f"{NAMESPACE}:")
            if bare in lines:
                self._add("duplicate-key", line, f"lines {lines[bare]} and {line}", "each key once", inner)
            lines.setdefault(bare, line)
            mapping[str(key)] = self._value(self._next(), inner)
        return mapping

    def _scalar(self, event: Any, line: int, path: str, *, key: bool) -> Any:
        text = str(event.value)
        if not event.implicit[0]:
            return text
        kind = self._resolve(yaml.ScalarNode, text, (True, False)).removeprefix(_TAG)
        if kind in ("bool", "null"):
            return text.lower() == "true" if kind == "bool" else None
        unlike = (
            text == "<<" or (not key and _AMBIGUOUS.fullmatch(text))
            if kind == "str"
            else not abs(float(text)) <= _LARGEST
        )
        if unlike:
            allowed = "text in quotes, true or false, or a decimal number up to 2**53"
            self._add("ambiguous-yaml", line, text, allowed, path)
            return text
        return {"int": int, "float": float}.get(kind, str)(text)

    def _stop(self, line: int, value: Any, allowed: str, path: str = "", *, why: str | None = None) -> NoReturn:
        self.refuse(line, value, allowed, path, why=why)
        raise _StoppedError

    def refuse(self, line: int | str, value: Any, allowed: str, path: str = "", *, why: str | None = None) -> None:
        """Add a problem with something unreadable."""
        self._add("broken-stack-file", line, value, allowed, path, why)

    def _add(self, id_: str, line: int | str, value: Any, allowed: str, path: str, why: str | None = None) -> None:
        place = f"{self._name}, line {line}{f': {path}' if path else ''}"
        usual, write = _WHY[id_]
        self.problems.append(
            Finding(id=id_, subject=place, found=value, allowed=allowed, why=why or usual, write=write)
        )
