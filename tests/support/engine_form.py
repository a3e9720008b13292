"""The form of YAML that the Pulumi engine writes back byte for byte when `pulumi config set` edits one key.

The engine parses the whole file and writes it again (pulumi, sdk/go/common/util/yamlutil/edit.go, over gopkg.in/yaml.v3 with
an indentation of two). Comments survive above a key and behind a value. Blank lines vanish; a comment after the last key of
a section moves, or gains a blank line, when a key is added. tests/test_stack_files.py compares this with the engine.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import yaml

_STRING, _FLOAT = "tag:yaml.org,2002:str", "tag:yaml.org,2002:float"
_NUMBER = re.compile(r"[-+]?(\.?\d[\d_.]*(e[-+]?\d+)?|0[xob][\da-f_]+)", re.IGNORECASE)
"""Plain texts that only the engine's parser takes for numbers, such as 1e3."""


def rewritten(text: str) -> list[str]:
    """The lines that an edit of another key would change, as `NUMBER: reason`."""
    found = list(_comments_without_key(text.split("\n")))
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    assert isinstance(root, yaml.MappingNode)
    wanted = list(_block(root, 0))
    given = [(number, line) for number, line in enumerate(text.split("\n")[:-1], 1) if not _is_comment(line)]
    for (number, line), form in zip(given, wanted, strict=False):
        if line != form and not line.startswith(f"{form} # "):
            return [*found, f"{number}: the engine writes {form!r}"]
    if len(given) != len(wanted):
        found.append(f"{len(given)} lines with values, of which the engine makes {len(wanted)}")
    if not text.endswith("\n"):
        found.append("no line end at the end of the file")
    return [*found, *_configuration(root)]


def _is_comment(line: str) -> bool:
    return line.lstrip(" ").startswith("#")


def _comments_without_key(lines: list[str]) -> Iterator[str]:
    """Comments that stand above no key of their own indentation."""
    for number, (line, after) in enumerate(zip(lines, [*lines[1:], ""], strict=True), 1):
        if _is_comment(line):
            if line != line.rstrip():
                yield f"{number}: space at the end"
            if not after or re.match(" *", line)[0] != re.match(" *", after)[0]:  # type: ignore[index]
                yield f"{number}: no key of the same indentation follows this comment"


def _block(node: yaml.MappingNode | yaml.SequenceNode, indent: int) -> Iterator[str]:
    """The lines of a block collection, without comments."""
    margin = " " * indent
    for entry in node.value:
        key, value = entry if isinstance(entry, tuple) else (None, entry)
        start = f"{margin}{_inline(key)}:" if key is not None else f"{margin}-"
        if not isinstance(value, yaml.CollectionNode) or value.flow_style or not value.value:
            yield f"{start} {_inline(value)}"
        elif key is not None:
            yield start
            yield from _block(value, indent + 2)
        else:
            first, *rest = _block(value, indent + 2)
            yield f"{start} {first.lstrip(' ')}"
            yield from rest


def _inline(node: yaml.Node) -> str:
    """A scalar or a flow collection on one line."""
    if isinstance(node, yaml.MappingNode):
        return "{" + ", ".join(f"{_inline(key)}: {_inline(value)}" for key, value in node.value) + "}"
    if isinstance(node, yaml.SequenceNode):
        return "[" + ", ".join(map(_inline, node.value)) + "]"
    text = str(node.value)
    if node.style == '"':
        return json.dumps(text, ensure_ascii=False)
    if node.style == "'":
        return "'" + text.replace("'", "''") + "'"
    if (
        (node.tag == _STRING and not _NUMBER.fullmatch(text))
        or text in ("null", "true", "false")
        or re.fullmatch(r"-?(0|[1-9]\d*)", text)
    ):
        return text
    # Go writes no zeros at the end of a fraction, and an exponent outside of 0.0001 to a million.
    if (
        node.tag == _FLOAT
        and repr(float(text)) == text
        and not float(text).is_integer()
        and 1e-4 <= abs(float(text)) < 1e6
    ):
        return text
    return f"another spelling of {text}"


def _configuration(root: yaml.MappingNode) -> Iterator[str]:
    """What the engine does to entries of `config:`, whichever key is set."""
    for section, entries in root.value:
        if section.value == "config" and isinstance(entries, yaml.MappingNode) and "runtime" not in _keys(root):
            for key, value in entries.value:
                if ":" not in key.value:
                    yield f"{key.value}: the engine adds the project's name"
                if isinstance(value, yaml.ScalarNode) and value.tag != _STRING:
                    yield f"{key.value}: the engine puts the value in quotes"


def _keys(node: yaml.MappingNode) -> set[str]:
    return {key.value for key, _ in node.value}
