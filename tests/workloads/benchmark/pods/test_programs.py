"""What every program of the pods has in common: its neighbours are there, and it needs nothing that the image may not have."""

from __future__ import annotations

import ast
import sys

from tests.support.rows import each_row
from workloads.pod_programs import benchmark_programs, python_program

PROGRAMS = {**benchmark_programs(), "with_api_key.py": python_program("server/with_api_key.py")}
OF_THE_IMAGE = {"bench_client.py": {"vllm"}, "fetch_tokenizer.py": {"huggingface_hub"}}
"""Imported by that program alone, where it is used."""


@each_row("name", PROGRAMS)
def test_a_program_imports_its_neighbours_and_the_standard_library(name: str) -> None:
    tree = ast.parse(PROGRAMS[name])
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level:
            wanted = [node.module] if node.module else [alias.name for alias in node.names]
            assert {f"{module}.py" for module in wanted} <= benchmark_programs().keys()
        elif isinstance(node, ast.Import | ast.ImportFrom):
            modules = [node.module or ""] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names]
            brought = set() if node in tree.body else OF_THE_IMAGE.get(name, set())
            assert {module.partition(".")[0] for module in modules} <= sys.stdlib_module_names | brought
