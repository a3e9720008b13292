"""The stacks of this repository, each recorded once for all tests: the workers of a run share the recordings as files."""

from __future__ import annotations

import os
import pickle
from functools import cache
from pathlib import Path
from typing import Final

from fleet.preview.offline import open_stack, record_stack
from fleet.preview.record.recording import Mode, Recording
from tests.support.recorded import without_positions

ROOT: Final = Path(__file__).resolve().parents[2]
SHARED: Final = "SHARED_RECORDINGS"
"""Environment variable with the folder of the run; tests/conftest.py sets it in each worker."""


@cache
def recorded_stack(stack: str, mode: Mode = "known") -> Recording:
    """A stack as its file describes it. Tests must not change the recording."""
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
        return record_stack(open_stack(ROOT, stack), mode)
