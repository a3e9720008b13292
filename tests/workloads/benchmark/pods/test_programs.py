"""What every program of the pods has in common: it is there, and it needs nothing that the image may not have."""

from __future__ import annotations

import ast
import sys

import pytest

from workloads.pod_programs import BENCHMARK, FOLDER, PACKAGE, python_program

OF_THE_IMAGE = {"vllm", "huggingface_hub"}
"""Imported where they are used; the image has them."""


def test_the_benchmark_takes_every_program_that_is_not_for_other_pods() -> None:
    there = {file.stem for file in (FOLDER / PACKAGE).glob("*.py")}
    assert set(BENCHMARK) == there - {"with_api_key"}
    # A ConfigMap holds 1 MiB.
    assert sum(len(python_program(name).encode()) for name in BENCHMARK) < 2**19


@pytest.mark.parametrize("name", [*BENCHMARK, "with_api_key"])
def test_a_program_imports_its_neighbours_and_the_standard_library(name: str) -> None:
    tree = ast.parse(python_program(name))
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level:
            assert node.module in BENCHMARK
        elif isinstance(node, ast.Import | ast.ImportFrom):
            modules = [node.module or ""] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names]
            allowed = sys.stdlib_module_names if node in tree.body else sys.stdlib_module_names | OF_THE_IMAGE
            assert {module.partition(".")[0] for module in modules} <= allowed
