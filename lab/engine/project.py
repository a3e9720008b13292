"""The folder in which the engine finds the program and its stacks: a copy, so that no command changes the user's checkout."""

from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path
from typing import Any, Final

import yaml

from fleet.preview.offline import OfflineStack

NOT_COPIED: Final = frozenset({"tests", "docs", "fleet", "lab"})
"""Folders with Python files that neither the program nor a policy pack needs."""
_MOST_BYTES: Final = 2**23
"""Larger files beside Pulumi.yaml are not part of a program. Assumed."""
_INTERPRETER: Final = re.compile(r"^(\s+virtualenv:).*$", re.MULTILINE)


class Project:
    """The rehearsed project. Stacks are staged into it."""

    def __init__(self, root: Path, folder: Path) -> None:
        """Copy the project in `root` to `folder`."""
        self.folder = folder
        folder.mkdir(parents=True)
        for path in sorted(root.iterdir()):
            if path.name.startswith("."):
                continue
            if path.is_file() and path.stat().st_size <= _MOST_BYTES:
                shutil.copy2(path, folder)
            elif path.is_dir() and path.name not in NOT_COPIED and any(path.glob("*.py")):
                # With compiled files: times are kept, so they stay valid, and the first run compiles nothing.
                shutil.copytree(path, folder / path.name, ignore=shutil.ignore_patterns(".*"))
        project_file = folder / "Pulumi.yaml"
        text = project_file.read_text(encoding="utf-8")
        # An installed language host of the user looks here for the interpreter.
        text = _INTERPRETER.sub(lambda line: f"{line[1]} {json.dumps(sys.prefix)}", text)
        project_file.write_text(text, encoding="utf-8")

    def stage(self, stack: OfflineStack) -> None:
        """Write the stack file with this stack's configuration, e.g. after `varied`; without its secrets, which are encrypted later.

        What the engine added to the file, the salt of its secrets, stays.
        """
        path = self.stack_file(stack.file.stack)
        given = {key: value for key, value in stack.config.items() if key not in stack.file.secret_keys}
        document: dict[str, Any] = {"config": {key: _structured(value) for key, value in given.items()}}
        if salt := self._salt(path):
            document["encryptionsalt"] = salt
        # JSON is YAML in which every text is quoted: none turns into a number or a date.
        path.write_text(json.dumps(document, indent=2), encoding="utf-8")

    def stack_file(self, stack: str) -> Path:
        """The stack's file in the copy."""
        return self.folder / f"Pulumi.{stack}.yaml"

    @staticmethod
    def _salt(path: Path) -> str | None:
        content = yaml.safe_load(path.read_text(encoding="utf-8")) if path.is_file() else None
        return content.get("encryptionsalt") if isinstance(content, dict) else None


def _structured(value: str) -> Any:
    """As in a stack file: the engine tells structured values from text, and checks their types."""
    return json.loads(value) if value[:1] in ("{", "[") else value
