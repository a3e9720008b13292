"""The stacks of this repository and the one that a guide shows on another's cluster, each recorded once for all tests: the workers of a
run share the recordings as files."""

from __future__ import annotations

import os
import pickle
from functools import cache
from pathlib import Path
from typing import Final

from fleet.preview.offline import OfflineStack, open_stack, record_stack
from fleet.preview.record.recording import Mode, Recording
from fleet.preview.record.stack_references import StackReferences
from settings.checks.placeholders import STAND_IN_PROJECT
from settings.load import parse
from settings.sections.section import NAMESPACE
from settings.stack_file import read
from tests.guides.lines import stack_files
from tests.support.recorded import without_positions

ROOT: Final = Path(__file__).resolve().parents[2]
CODE: Final = "code"
"""A stack on the cluster of stack spot, as docs/google-cloud.md shows it: tests/guides/test_stack_files.py checks the file."""
SHARED: Final = "SHARED_RECORDINGS"
"""Environment variable with the folder of the run; tests/conftest.py sets it in each worker."""


@cache
def opened_stack(stack: str) -> OfflineStack:
    """A stack of this repository, or `CODE`, ready to record."""
    if stack != CODE:
        return open_stack(ROOT, stack)
    file = read(ROOT, CODE, stack_files(ROOT / "docs" / "google-cloud.md")[CODE])
    config = {**file.config, "gcp:project": STAND_IN_PROJECT}
    return OfflineStack(root=ROOT, file=file, config=config, settings=parse(CODE, config), problems=())


def references_of(stack: str) -> StackReferences:
    """What stacks that this one refers to have put out, from their own recordings."""
    return StackReferences(ROOT, project=NAMESPACE, stack=stack, record_stack=lambda name, _: recorded_stack(name))


@cache
def recorded_stack(stack: str, mode: Mode = "known") -> Recording:
    """A stack as its file describes it, or `CODE`. Tests must not change the recording."""
    folder = os.environ.get(SHARED)
    if folder is None:
        return _record(stack, mode)
    file = Path(folder, f"{stack}-{mode}")
    if not file.exists():
        written = Path(folder, f"{stack}-{mode}-{os.getpid()}")
        written.write_bytes(pickle.dumps(_record(stack, mode)))
        written.replace(file)
    recording: Recording = pickle.loads(file.read_bytes())
    return recording


def _record(stack: str, mode: Mode) -> Recording:
    with without_positions():
        return record_stack(opened_stack(stack), mode, references_of(stack))
