"""The fuzzers, one module each, so that a process imports what its own needs."""

from __future__ import annotations

import sys
from importlib import import_module

from fleet.preview.record import quick_sdk
from tests.fuzz.target import HERE, Target

ROOT = HERE.parents[1]

TARGETS = ("configurations", "stack_files", "flags", "model_config", "client_files")


def load(name: str) -> Target:
    """The fuzzer of that name."""
    if (path := str(ROOT / "policy")) not in sys.path:  # as pytest has it: pyproject.toml
        sys.path.append(path)
    quick_sdk.install()  # as `fleet preview` does
    target: Target = import_module(f"tests.fuzz.targets.{name}").TARGET
    return target
