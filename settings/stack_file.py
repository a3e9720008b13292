"""Reads Pulumi.yaml and Pulumi.<stack>.yaml as the engine does, without the engine."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from facts.finding import Finding
from facts.names import ESC_OFFLINE, STACK_NAME, stack_names
from facts.secrets_in_text import SECRET_TEXT, form_of
from facts.texts import nearest
from settings import strict_yaml
from settings.checks.empty import is_blank
from settings.problems import (
    SettingsError,
    impossible_stack,
    is_exposed_secret,
    renamed_project,
    secret_in_plain_text,
    secret_in_section,
)
from settings.sections.section import NAMESPACE


@dataclass(frozen=True, slots=True, kw_only=True)
class StackFile:
    """A stack's configuration as the engine passes it to a program: every value a string, structured ones as JSON."""

    path: Path
    stack: str
    config: Mapping[str, str]
    """The stack's values over the stand-in values of its environments over Pulumi.yaml's values."""
    secret_keys: frozenset[str]
    environments: tuple[str, ...] = ()
    """Pulumi ESC environments the file imports, `(inline)` for values written into it. They cannot be opened offline."""
    stand_in: str | None = None
    """Name of the file with stand-in values for the environments, if there is one."""

    @property
    def unopened(self) -> tuple[str, ...]:
        """Environments without stand-in values."""
        return () if self.stand_in else self.environments

    @property
    def about_environments(self) -> str:
        """What an offline command knows of the environments, as a sentence; empty for a stack without any."""
        if not self.environments:
            return ""
        from_file = f"{self.stand_in} is used instead"
        unknown = f"their values are unknown; add them to Pulumi.{self.stack}{ESC_OFFLINE}.yaml"
        known = from_file if self.stand_in else unknown
        return f"Pulumi ESC environments are not opened offline ({', '.join(self.environments)}): {known}."


def read(root: Path, stack: str, text: str | None = None) -> StackFile:
    """The configuration of `stack`, merged as the engine merges it; with `text` in place of the stack file's content.

    The stack's own `config:` wins over the `pulumiConfig` of its environments, key by key also inside mappings; Pulumi.yaml's
    `value:` counts where both are silent. Source: pulumi, pkg/workspace/config.go (mergeConfig) and
    sdk/go/common/resource/config/object.go (Merge).

    Raises SettingsError when a file is missing, broken or ambiguous, or when the project has another name.
    """
    if not STACK_NAME.fullmatch(stack):
        raise SettingsError(stack, [impossible_stack(stack)])
    path = root / f"Pulumi.{stack}.yaml"
    of_every_stack = _project_values(root, stack)
    if text is None and not path.is_file():
        known = stack_names(root)
        source = "smoke" if "smoke" in known else next(iter(known), None)
        made_of = f"--from {source}" if source else "--machine g2-standard-12 --model Qwen/Qwen3.5-4B"
        meant = stack.removeprefix("Pulumi.").removesuffix(".yaml")
        make = f"fleet new {meant} {made_of}"
        raise SettingsError(
            stack,
            [
                Finding(
                    id="unknown-stack",
                    subject="--stack",
                    found=stack,
                    allowed=f"a stack with a file in this folder: {', '.join(known) or 'none'}",
                    why=f"{path.name} does not exist",
                    write=nearest(meant, known) or (f"one of these names, or {make}" if known else make),
                )
            ],
        )
    document = content(path, stack) if text is None else _mapping(path, stack, text.encode())
    if misspelled := [_misspelled(path, name, near) for name in document if (near := _meant(name))]:
        raise SettingsError(stack, misspelled)
    environments = _environments(document.get("environment"))
    given = document.get("config")
    raw = {} if given is None else given
    if not isinstance(raw, dict) or environments is None:
        wrong = environments is None
        why = (
            "`environment:` must be a list of names, or a mapping with `imports:` and `values:`"
            if wrong
            else "`config:` must be a mapping of keys to values"
        )
        raise SettingsError(stack, [_broken(path, _kind(document["environment"] if wrong else raw), why)])
    stand_in = path.with_name(f"Pulumi.{stack}{ESC_OFFLINE}.yaml")
    stood_in = bool(environments) and stand_in.is_file()
    problems: list[Finding] = []
    of_environments = _values(content(stand_in, stack), problems) if stood_in else {}
    own = _values(raw, problems)
    if problems:
        raise SettingsError(stack, problems)
    config = {**of_every_stack, **_merged(of_environments, own)}
    # The program runs in the project's folder, a command in any folder.
    model = config.get(f"{NAMESPACE}:model")
    if isinstance(model, dict) and isinstance(model.get("config"), str) and not is_blank(model["config"]):
        # Joined as text: a Path would collapse the slashes of a URL, and its password would not be recognized and hidden.
        config[f"{NAMESPACE}:model"] = {**model, "config": os.path.join(root, model["config"])}  # noqa: PTH118
    return StackFile(
        path=path,
        stack=stack,
        config={key: SECRET_TEXT if value is _SEALED else _as_text(value) for key, value in config.items()},
        secret_keys=frozenset(key for key, value in config.items() if value is _SEALED),
        environments=environments,
        stand_in=stand_in.name if stood_in else None,
    )


def _meant(name: str) -> str | None:
    """The top-level key that a misspelled one was meant to be."""
    known = ("config", "environment", "encryptedkey", "encryptionsalt", "secretsprovider")
    return None if name in known else nearest(name, known)


def _misspelled(path: Path, name: str, meant: str) -> Finding:
    return Finding(
        id="unknown-key",
        subject=f"{path.name}: {name}",
        allowed=meant,
        why=f"unknown key; did you mean {meant}?",
        write=f"{meant}:",
    )


_SEALED: Final = object()
"""Stands for a secret, which cannot be decrypted without the stack's secrets provider."""


def _values(raw: Mapping[Any, Any], problems: list[Finding]) -> dict[str, Any]:
    """The values by their full keys. Adds problems with secrets to `problems`."""
    values: dict[str, Any] = {}
    for key, value in raw.items():
        full = str(key) if ":" in str(key) else f"{NAMESPACE}:{key}"
        if _is_secret(value) and form_of(str(*value.values())):
            problems.append(secret_in_plain_text(full))  # plain text in place of a ciphertext
        elif _is_secret(value):
            values[full] = _SEALED
        elif path_to_secret := _find_secret(value):
            problems.append(secret_in_section(f"{full}{path_to_secret}"))
        elif is_exposed_secret(full, value):
            problems.append(secret_in_plain_text(full))
        else:
            values[full] = value
    return values


def _merged(below: Any, above: Any) -> Any:
    if isinstance(below, dict) and isinstance(above, dict):
        return below | {key: _merged(below.get(key), value) for key, value in above.items()}
    return above


def _environments(given: Any) -> tuple[str, ...] | None:
    """The environments of `environment:`; None for a form that Pulumi rejects.

    Source: pulumi, sdk/go/common/workspace/project.go (Environment); pulumi/esc, ast/environment.go (ImportDecl).
    """
    if given is None:
        return ()
    inline = isinstance(given, dict)
    imports = given.get("imports") or [] if inline else given
    if not isinstance(imports, list):
        return None
    names = [
        next(iter(entry)) if inline and isinstance(entry, dict) and len(entry) == 1 else entry for entry in imports
    ]
    if not all(isinstance(name, str) for name in names):
        return None
    return (*names, *(["(inline)"] if inline and given.get("values") else []))


def _project_values(root: Path, stack: str) -> dict[str, Any]:
    """Pulumi.yaml's values for every stack, without this project's own keys. Raises SettingsError for another project."""
    path = root / "Pulumi.yaml"
    if not path.is_file():
        raise SettingsError(
            stack,
            [
                Finding(
                    id="no-project",
                    subject="Pulumi.yaml",
                    found=str(root),
                    allowed="a folder with a Pulumi.yaml",
                    why="the project's name, which prefixes every key, comes from it",
                    write="run the command in the project's folder, or pass --root",
                )
            ],
        )
    document = content(path, stack)
    name = document.get("name")
    if name != NAMESPACE:
        raise SettingsError(stack, [renamed_project(name)])
    given = document.get("config")
    declared = {} if given is None else given
    if not isinstance(declared, dict):
        raise SettingsError(stack, [_broken(path, _kind(declared), "`config:` must be a mapping of keys to values")])
    return {
        key: entry["value"] if isinstance(entry, dict) else entry
        for key, entry in declared.items()
        # The project's own keys come from its stack files alone.
        if ":" in key and (not isinstance(entry, dict) or "value" in entry)
    }


def content(path: Path, stack: str) -> dict[str, Any]:
    """The content of a project file. Raises SettingsError for `stack`."""
    return _mapping(path, stack, path.read_bytes())


def _mapping(path: Path, stack: str, data: bytes) -> dict[str, Any]:
    document = strict_yaml.load(data, name=path.name, stack=stack)
    if document is not None and not isinstance(document, dict):
        raise SettingsError(stack, [_broken(path, _kind(document), "the file must be a mapping of keys to values")])
    return document or {}


def _is_secret(value: Any) -> bool:
    """Whether a stack file (`secure:`) or an environment (`fn::secret:`) marks this as a secret."""
    return isinstance(value, dict) and len(value) == 1 and next(iter(value)) in ("secure", "fn::secret")


def _find_secret(value: Any, path: str = "") -> str | None:
    if _is_secret(value):
        return path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in items:
        secret_path = _find_secret(child, f"{path}[{key}]" if isinstance(value, list) else f"{path}.{key}")
        if secret_path is not None:
            return secret_path
    return None


def _as_text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict | list):
        return json.dumps(value, separators=(",", ":"))
    return "" if value is None else str(value)


def _kind(value: Any) -> str:
    return "a list" if isinstance(value, list) else "a mapping" if isinstance(value, dict) else "a single value"


def _broken(path: Path, value: Any, why: str) -> Finding:
    return Finding(
        id="broken-stack-file",
        subject=path.name,
        found=value,
        allowed="YAML with a `config:` mapping"
        if ESC_OFFLINE not in path.name
        else "YAML, a mapping of keys to values",
        why=why,
        write="correct the line; an editor that supports the file's schema comment shows where",
    )
