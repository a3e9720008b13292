"""A stack file made from another one: what belongs to the other stack alone is left out."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from fleet.plan.stack_file import POLICY_CONFIG_FOLDER, write_files
from fleet.plan.stack_text import StackText
from settings.neighbours import beside_others
from settings.problems import SettingsError
from settings.stack_file import read

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
    edited = StackText(found.path.read_bytes().decode(), name=found.path.name, stack=source)
    secrets = tuple(sorted(found.secret_keys & {*(edited.get(("config",)) or ())}))
    for path in (*_OWN, *(("config", key) for key in secrets)):
        edited.remove(path)
    if project is not None:
        edited.set(("config", "gcp:project"), project)
    text = _with_heading(edited.text, f"# {stack}: a copy of {found.path.name}, made by `fleet new`.")
    if project is not None:
        text = re.sub(r"^( *gcp:project: \S+) +#.*$", r"\1", text, flags=re.MULTILINE)
    copied = read(root, stack, text)
    if refused := [one for one in beside_others(root, stack, copied.config) if one.severity == "error"]:
        raise SettingsError(stack, refused)
    limits = root / POLICY_CONFIG_FOLDER / f"{source}.json"
    written = write_files(root, stack, text, limits.read_text(encoding="utf-8") if limits.is_file() else None)
    return written, secrets


def _with_heading(text: str, heading: str) -> str:
    """The text with this comment in place of the one at its top, which is about the other stack."""
    modeline, lines = re.match(r"(# yaml-language-server:.*\n#\n)?((?:#.*\n|\n)*)", text).groups("")  # type: ignore[union-attr]
    return f"{modeline}{heading}\n{text[len(modeline) + len(lines) :]}"
