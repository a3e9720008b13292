"""A stack file made from another one: what belongs to the other stack alone is left out."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

from facts.finding import Finding
from fleet.plan import stack_text
from fleet.plan.stack_file import POLICY_CONFIG_FOLDER, write_files
from settings.neighbours import beside_others
from settings.problems import SettingsError
from settings.stack_file import read
from settings.strict_yaml import load

_OWN: Final = (
    ("config", "vllm-fleet:namespace"),
    ("config", "vllm-fleet:cluster", "name"),
    ("config", "vllm-fleet:rollout"),
    ("encryptedkey",),
    ("encryptionsalt",),
    ("secretsprovider",),
)
"""Names that must be unique, a canary, and what secrets are encrypted with. Without a name, it follows from the stack's."""


def copy_stack(root: Path, source: str, stack: str, *, project: str | None) -> tuple[tuple[Path, ...], tuple[str, ...]]:
    """Write `stack` as a copy of `source`, and its policy config; return the files, and the secrets that are left out.

    Raises SettingsError for a source that does not exist or cannot be edited, an existing file, or what `fleet check` refuses.
    """
    found = read(root, source)
    text = found.path.read_bytes().decode()
    content: dict[str, Any] = load(text.encode(), name=found.path.name, stack=source) or {}
    secrets = tuple(sorted(found.secret_keys & {*(content.get("config") or ())}))
    for path in (*_OWN, *(("config", key) for key in secrets)):
        text = stack_text.without(text, path)
        _leave_out(content, path)
    if project is not None:
        text = stack_text.with_project(text, project)
        content["config"] = {**(content.get("config") or {}), "gcp:project": project}
    if _content(text) != content:
        raise SettingsError(source, [_not_copied(found.path.name)])
    text = _with_heading(text, f"# {stack}: a copy of {found.path.name}, made by `fleet new`.")
    copied = read(root, stack, text)
    if refused := [one for one in beside_others(root, stack, copied.config) if one.severity == "error"]:
        raise SettingsError(stack, refused)
    limits = root / POLICY_CONFIG_FOLDER / f"{source}.json"
    written = write_files(root, stack, text, limits.read_text(encoding="utf-8") if limits.is_file() else None)
    return written, secrets


def _leave_out(content: dict[str, Any], path: stack_text.Path) -> None:
    """As `stack_text.without`, of the content."""
    sections = [content]
    for key in path[:-1]:
        if not isinstance(inner := sections[-1].get(key), dict):
            return
        sections.append(inner)
    if path[-1] not in sections[-1]:
        return
    for depth, section in reversed([*enumerate(sections)]):
        del section[path[depth]]
        if section or depth < 2:
            return


def _content(text: str) -> Any:
    try:
        return load(text.encode(), name="", stack="")
    except SettingsError:
        return None


def _not_copied(name: str) -> Finding:
    return Finding(
        id="stack-file-not-edited",
        subject=name,
        found=None,
        allowed="sections and keys formatted as in the other stack files",
        why="this command cannot edit its format safely; nothing was changed",
        write="the change manually, then run `fleet check`",
    )


def _with_heading(text: str, heading: str) -> str:
    """The text with this comment in place of the one at its top, which is about the other stack."""
    modeline, lines = re.match(r"(# yaml-language-server:.*\n#\r?\n)?((?:#.*\n|\r?\n)*)", text).groups("")  # type: ignore[union-attr]
    line_end = "\r\n" if "\r\n" in text else "\n"
    return f"{modeline}{heading}{line_end}{text[len(modeline) + len(lines) :]}"
