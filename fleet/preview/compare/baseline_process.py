"""Process that records another version of the program. Started by fleet.preview.compare.baseline_git only.

It imports this version's recorder, then forgets the rest of this version, so that `facts`, `settings`, `infra` and all else that a
program imports come from the other version.
"""

from __future__ import annotations

import json
import os
import pickle
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fleet import CODE, program_folder
from fleet.preview.record import quick_sdk

if TYPE_CHECKING:
    from fleet.preview.record.recording import Recording
    from fleet.preview.record.stack_references import StackReferences


def result_name(stack: str) -> str:
    """Result file of a stack: the pickled recording, or the text of an error."""
    return f"result.{stack}.pickle"


def main(folder: str) -> None:
    """Record the stacks in `folder`/job.json, each into its own file, written atomically."""
    quick_sdk.install()
    # All that records: what is imported after `_forget` is the other version's.
    from fleet.preview.record import recorder, stack_references  # noqa: F401
    from fleet.preview.record.recording import ProgramError

    job = json.loads((Path(folder) / "job.json").read_text(encoding="utf-8"))
    if program_folder(Path(job["root"])) != CODE:
        _forget(CODE)
    # The program's output is not read; a full pipe would block it.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    for stack in job["stacks"]:
        try:
            result: Recording | str = _record(job, stack, None)
        except Exception as error:
            result = error.message if isinstance(error, ProgramError) else f"{type(error).__name__}: {error}"
        unfinished = Path(folder) / f"{stack}.unfinished"
        unfinished.write_bytes(pickle.dumps(result))
        unfinished.rename(Path(folder) / result_name(stack))
    os._exit(0)


def _forget(own: Path) -> None:
    """Remove this version from the import path, and its packages but `fleet` from what is imported. The recorder keeps what it uses."""
    sys.path[:] = [entry for entry in sys.path if entry and Path(entry).resolve() != own]
    packages = {folder.parent.name for folder in own.glob("*/__init__.py")} - {"fleet"}
    for name in [name for name in sys.modules if name.partition(".")[0] in packages]:
        del sys.modules[name]


def _record(job: Any, stack: str, references: StackReferences | None) -> Recording:
    from fleet.preview.record.recorder import record
    from fleet.preview.record.recording import ProgramError
    from fleet.preview.record.stack_references import StackReferences

    def record_other(name: str, its_references: StackReferences) -> Recording:
        return _record(job, name, its_references)

    found = job["configs"][stack]
    if isinstance(found, str):
        raise ProgramError(found)
    root = Path(job["root"])
    return record(
        root,
        project=job["project"],
        stack=stack,
        config=found["config"],
        secret_keys=found["secret_keys"],
        # Outputs of other stacks are those they would have if they were up.
        mode="preview" if references is None else "known",
        is_up=True,
        stack_outputs=references
        or StackReferences(root, project=job["project"], stack=stack, record_stack=record_other),
    )
