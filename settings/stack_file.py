"""Reads Pulumi.yaml and Pulumi.<stack>.yaml as the engine would hand them to the program, without the engine."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from settings.problems import Problem, SettingsError, secret_in_plain_text, secret_in_section
from settings.rules.secrets_in_text import SECRET_TEXT, form_of, looks_secret
from settings.sections.section import NAMESPACE, SECRET_KEYS

_Base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Loader(_Base):  # type: ignore[misc]
    """YAML 1.2 scalars only: Pulumi's reader and Python's differ on the 1.1 ones (yes, 0755, 1_000, 12:30, dates)."""


_Loader.yaml_implicit_resolvers = {}
for _tag, _pattern, _first in (
    ("tag:yaml.org,2002:bool", r"^(?:true|True|TRUE|false|False|FALSE)$", "tTfF"),
    ("tag:yaml.org,2002:null", r"^(?:~|null|Null|NULL|)$", ["~", "n", "N", ""]),
    ("tag:yaml.org,2002:int", r"^[-+]?(?:0|[1-9][0-9]*)$", "-+0123456789"),
    (
        "tag:yaml.org,2002:float",
        r"^[-+]?(?:[0-9]+\.[0-9]*|\.[0-9]+|[0-9]+(?=[eE]))(?:[eE][-+]?[0-9]+)?$",
        "-+.0123456789",
    ),
):
    _Loader.add_implicit_resolver(_tag, re.compile(_pattern), list(_first))

_AMBIGUOUS = re.compile(
    r"^(?:y|Y|yes|Yes|YES|no|No|NO|n|N|on|On|ON|off|Off|OFF|[-+]?0[0-9_]+|0[xob][0-9a-fA-F_]+|[-+]?[0-9][0-9_]*_[0-9_]*"
    r"|[0-9]+(?::[0-5]?[0-9])+|\d{4}-\d\d?-\d\d?(?:[Tt ].*)?)$"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StackFile:
    """A stack's configuration as the engine passes it on: every value a string, structured ones as JSON."""

    path: Path
    project: str
    """Name of the Pulumi project, which is also the namespace of its keys."""
    stack: str
    config: Mapping[str, str]
    secret_keys: frozenset[str]
    environments: tuple[str, ...]
    """Pulumi ESC environments the file imports; they cannot be opened offline."""


def stack_names(root: Path) -> tuple[str, ...]:
    """Names of the stacks that have a file in `root`, sorted."""
    return tuple(sorted(path.name.split(".")[1] for path in root.glob("Pulumi.*.yaml")))


def read(root: Path, stack: str) -> StackFile:
    """The configuration of `stack`. Raises SettingsError when the file is missing, broken or ambiguous."""
    path = root / f"Pulumi.{stack}.yaml"
    project = _project_name(root, stack)
    if not path.is_file():
        known = ", ".join(stack_names(root)) or "none"
        raise SettingsError(
            stack,
            [
                Problem(
                    id="unknown-stack",
                    path="--stack",
                    value=stack,
                    allowed=f"a stack with a file in this folder: {known}",
                    why=f"there is no {path.name}",
                    write="the name of one of them, or copy a stack file and edit it",
                )
            ],
        )
    document = _parse(path, stack)
    raw = document.get("config") or {}
    if not isinstance(raw, dict):
        raise SettingsError(stack, [_broken(path, _kind(raw), "`config:` must be a mapping of keys to values")])
    config: dict[str, str] = {}
    secret_keys: set[str] = set()
    problems: list[Problem] = []
    for key, value in raw.items():
        full = key if ":" in str(key) else f"{project}:{key}"
        if _is_secure(value) and form_of(str(value["secure"])):
            problems.append(secret_in_plain_text(full))  # typed by hand where a ciphertext belongs
        elif _is_secure(value):
            # It cannot be decrypted without the stack's secrets provider.
            config[full] = SECRET_TEXT
            secret_keys.add(full)
        elif path_to_secure := _find_secure(value):
            problems.append(secret_in_section(f"{full}{path_to_secure}"))
        elif value and full in {f"{project}:{name}" for name in SECRET_KEYS}:
            problems.append(secret_in_plain_text(full))
        else:
            config[full] = _as_text(value)
    if problems:
        raise SettingsError(stack, problems)
    environments = document.get("environment") or []
    return StackFile(
        path=path,
        project=project,
        stack=stack,
        config=config,
        secret_keys=frozenset(secret_keys),
        environments=tuple(str(e) for e in environments) if isinstance(environments, list) else ("(inline)",),
    )


def _project_name(root: Path, stack: str) -> str:
    path = root / "Pulumi.yaml"
    if not path.is_file():
        raise SettingsError(
            stack,
            [
                Problem(
                    id="no-project",
                    path="Pulumi.yaml",
                    value=str(root),
                    allowed="a folder with a Pulumi.yaml",
                    why="the project's name, which prefixes every key, is read from it",
                    write="run the command in the project's folder, or pass --root",
                )
            ],
        )
    # The name is one plain line near the top; a whole YAML parse of a documented Pulumi.yaml costs more than all else here.
    match = re.search(r"^name:\s*['\"]?([A-Za-z0-9_.-]+)", path.read_text(encoding="utf-8"), re.MULTILINE)
    return match.group(1) if match else NAMESPACE


def _parse(path: Path, stack: str) -> dict[str, Any]:
    text = path.read_text(encoding="utf-8")
    try:
        loader = _Loader(text)
        try:
            node = loader.get_single_node()
            ambiguous = _ambiguous(node)
            document = loader.construct_document(node) if node is not None else {}
        finally:
            loader.dispose()
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"line {mark.line + 1}, column {mark.column + 1}" if mark else "somewhere"
        # Without what it quotes of the file, which may be a secret that was not put in quotes.
        what = re.sub(r"['\"][^'\"]*\w\w[^'\"]*['\"]", "[...]", getattr(error, "problem", None) or "not YAML")
        raise SettingsError(stack, [_broken(path, f"{where}: {what}", "it could not be read as YAML")]) from None
    if ambiguous:
        raise SettingsError(stack, ambiguous)
    if not isinstance(document, dict):
        raise SettingsError(stack, [_broken(path, _kind(document), "the file must be a mapping with a `config:` key")])
    return document


def _ambiguous(node: Any) -> list[Problem]:
    problems: list[Problem] = []
    stack = [(node, "")]
    while stack:
        current, name = stack.pop()
        if isinstance(current, yaml.ScalarNode):
            plain = current.style in (None, "") and current.tag == "tag:yaml.org,2002:str"
            if plain and _AMBIGUOUS.match(current.value):
                shown = SECRET_TEXT if looks_secret(name, current.value) else current.value
                problems.append(
                    Problem(
                        id="ambiguous-yaml",
                        path=f"line {current.start_mark.line + 1}",
                        value=shown,
                        allowed="a quoted string, true/false, or a plain decimal number",
                        why="YAML 1.1 and 1.2 readers disagree about this word, and the engine's reader is not this one",
                        write=f'"{shown}" if it is text; true, false or a decimal number otherwise',
                    )
                )
        elif isinstance(current, yaml.SequenceNode):
            stack.extend((value, name) for value in current.value)
        elif isinstance(current, yaml.MappingNode):
            stack.extend((value, str(key.value)) for key, value in current.value)
    return problems


def _is_secure(value: Any) -> bool:
    return isinstance(value, dict) and set(value) == {"secure"}


def _find_secure(value: Any, path: str = "") -> str | None:
    if _is_secure(value):
        return path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in items:
        found = _find_secure(child, f"{path}[{key}]" if isinstance(value, list) else f"{path}.{key}")
        if found is not None:
            return found
    return None


def _as_text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict | list):
        return json.dumps(value, separators=(",", ":"))
    return "" if value is None else str(value)


def _kind(value: Any) -> str:
    return "a list" if isinstance(value, list) else "one single value"


def _broken(path: Path, value: Any, why: str) -> Problem:
    return Problem(
        id="broken-stack-file",
        path=path.name,
        value=value,
        allowed="YAML with a `config:` mapping",
        why=why,
        write="mend the line; an editor that follows the file's schema comment shows where",
    )
