"""The text of a stack file: values in the form that the engine writes, and keys cut out of it or put in, all other bytes as they are."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import yaml
from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.scalarstring import DoubleQuotedScalarString

_PLAIN: Final = re.compile(r"[A-Za-z][A-Za-z0-9_./-]*")
"""Texts that need no quotes, except for the words below: the engine takes others for numbers, such as 0.33.0."""
_WORDS: Final = frozenset({"true", "false", "null", "yes", "no", "on", "off", "y", "n"})
_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

Path = Sequence[str]
"""Keys from the top of the file: `("config", "vllm-fleet:server", "engine")`."""


def without(text: str, path: Path) -> str:
    """The text without the key, if it is there, and without sections that become empty. Comments above it stay."""
    found = _found(text, path)
    while len(found) > 2 and len(found[-1][0].value) == 1:
        found.pop()
    if not found:
        return text
    section, place = found[-1]
    keys = section.value
    key, value = keys[place]
    if section.flow_style:
        if place + 1 < len(keys):
            return text[: key.start_mark.index] + text[keys[place + 1][0].start_mark.index :]
        begin = keys[place - 1][1].end_mark.index if place else key.start_mark.index
        return text[:begin] + text[value.end_mark.index :]
    begin = text.rfind("\n", 0, key.start_mark.index) + 1
    end = max(key.end_mark.index, _end(value))
    # What a block of text ends with, its last line has.
    line_end = end if text[end - 1] == "\n" else text.find("\n", end) + 1
    return text[:begin] + (text[line_end:] if line_end else "")


def with_project(text: str, project: str) -> str:
    """The text with this Google Cloud project, in the place of the other one and of the comment beside it."""
    written = dumped(styled({"gcp:project": project}, 1)).rstrip("\n")
    found = _found(text, ("config", "gcp:project"))
    if found:
        section, place = found[-1]
        key, value = section.value[place]
        rest = re.sub(r"\A +#[^\r\n]*", "", text[value.end_mark.index :])
        return text[: key.start_mark.index] + written + rest
    return re.sub(r"^config:[^\r\n]*(\r?\n)", rf"\g<0>  {written}\1", text, count=1, flags=re.MULTILINE)


def _found(text: str, path: Path) -> list[tuple[Any, int]]:
    """The sections down to the key, each with the place of the next; none if the key is not there."""
    found = []
    node = yaml.compose(text, Loader=_Loader)
    for name in path:
        if not isinstance(node, yaml.MappingNode):
            return []
        place = next((place for place, (key, _) in enumerate(node.value) if key.value == name), None)
        if place is None:
            return []
        found.append((node, place))
        node = node.value[place][1]
    return found


def _end(node: Any) -> int:
    """Where a value's text ends: a block's mark is behind the comments that follow it."""
    while isinstance(node, yaml.CollectionNode) and not node.flow_style and node.value:
        last = node.value[-1]
        node = last[1] if isinstance(node, yaml.MappingNode) else last
    return int(node.end_mark.index)


def dumped(value: Any) -> str:
    """The value as text."""
    writer = YAML()
    writer.width = 1_000_000
    writer.indent(mapping=2, sequence=4, offset=2)
    writer.representer.add_representer(
        type(None), lambda representer, _: representer.represent_scalar("tag:yaml.org,2002:null", "null")
    )
    stream = io.StringIO()
    writer.dump(value, stream)
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
