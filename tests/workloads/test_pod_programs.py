"""Programs of pods: they need nothing that an image may not have, and only code changes them. What changes a measurement is noticed."""

from __future__ import annotations

import ast
import hashlib
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from fleet.plan.model import calibration
from fleet.preview.offline import open_stack, record_stack
from fleet.preview.record.recording import Recording
from tests.support.rows import each_row
from tests.support.stacks import recorded_stack
from workloads.batch.job import PROGRAM as OF_A_BATCH
from workloads.benchmark.job import PROTOCOL_VERSION
from workloads.pod_programs import FOLDER, benchmark_programs, code_of, package_of, python_program

ROOT = Path(__file__).resolve().parents[2]
PINNED = Path(__file__).with_name("benchmark_protocol.yaml")
PROGRAMS = [*sorted((FOLDER / "benchmark" / "pods").glob("*.py")), FOLDER / "server" / "with_api_key.py"]

IN_IMAGES = {**benchmark_programs(), "with_api_key.py": python_program("server/with_api_key.py")}
OF_THE_IMAGE = {"bench_client.py": {"vllm"}, "fetch_tokenizer.py": {"huggingface_hub"}}
"""Imported by that program alone, where it is used."""


def docstrings(tree: ast.AST) -> Iterator[tuple[Any, ast.Expr]]:
    """Every string that is a statement, with the node that it belongs to."""
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        for one in body if isinstance(body, list) else ():
            if isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant) and isinstance(one.value.value, str):
                yield node, one


def reworded(text: str) -> str:
    """The program with other docstrings, other comments and other blank lines."""
    lines = text.splitlines()
    for _, one in sorted(docstrings(ast.parse(text)), key=lambda found: -found[1].lineno):
        margin = " " * one.col_offset
        assert one.end_lineno is not None
        lines[one.lineno - 1 : one.end_lineno] = [
            f'{margin}"""Other words,',
            "",
            f'{margin}# and "more" of them.\n{margin}"""',
        ]
    return "# First.\n\n" + "\n".join(lines).replace("\nfrom ", "  # the 'next' import\n\n\nfrom ") + "\n# Last.\n"


@each_row("file", PROGRAMS)
def test_pods_get_all_of_the_code_and_none_of_the_words(file: Path) -> None:
    tree = ast.parse(file.read_text())
    for node, words in list(docstrings(tree)):
        node.body = [one for one in node.body if one is not words] or (
            [] if isinstance(node, ast.Module) else [ast.Pass()]
        )
    shipped = code_of(file.read_text())
    assert ast.dump(ast.parse(shipped)) == ast.dump(tree)
    assert "\n\n" not in shipped
    assert len(shipped) < len(file.read_text())


@each_row("file", PROGRAMS)
def test_other_words_make_the_same_program(file: Path) -> None:
    other = reworded(file.read_text())
    assert ast.dump(ast.parse(other)) != ast.dump(ast.parse(file.read_text()))
    assert code_of(other) == code_of(file.read_text())


def test_strings_that_only_look_like_words_stay() -> None:
    text = "NOTE = '''\n# not a comment\n\n\"\"\"nor a docstring\"\"\"\n'''\nMARK = f\"{NOTE!r} # 'this'\" 'x#y'\n"
    assert code_of(text) == text


def test_a_class_of_words_alone_keeps_a_body() -> None:
    assert code_of('class E(Exception):\n    """Why."""\n\n\nx = 1\n') == "class E(Exception):\n    pass\nx = 1\n"
    assert code_of('class E:\n    """Why."""\n\n    # And:\n    x = 1\n') == "class E:\n    x = 1\n"


def test_the_programs_of_this_protocol_version_are_the_reviewed_ones() -> None:
    pinned = yaml.safe_load(PINNED.read_text())
    programs = "".join(f"{name.removesuffix('.py')}\n{code}" for name, code in benchmark_programs().items())
    found = hashlib.sha256(programs.encode()).hexdigest()
    assert max(pinned) == PROTOCOL_VERSION
    assert pinned[PROTOCOL_VERSION] == found, (
        f"the benchmark's programs changed: read {PINNED.name}, decide whether PROTOCOL_VERSION goes up, and write {found}"
    )


@each_row("name", IN_IMAGES)
def test_a_program_imports_its_neighbours_and_the_standard_library(name: str) -> None:
    tree = ast.parse(IN_IMAGES[name])
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level:
            wanted = [node.module] if node.module else [alias.name for alias in node.names]
            assert {f"{module}.py" for module in wanted} <= benchmark_programs().keys()
        elif isinstance(node, ast.Import | ast.ImportFrom):
            modules = [node.module or ""] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names]
            brought = set() if node in tree.body else OF_THE_IMAGE.get(name, set())
            assert {module.partition(".")[0] for module in modules} <= sys.stdlib_module_names | brought


def test_a_batchs_programs_need_nothing_but_python(tmp_path: Path) -> None:
    for path, code in package_of(OF_A_BATCH).items():
        file = tmp_path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(code, encoding="utf-8")
    # -I: no site-packages of a user and nothing of this folder; -S: none of the environment.
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); from {OF_A_BATCH} import main; main(['--help'])"
    done = subprocess.run([sys.executable, "-ISc", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "--request-seconds" in done.stdout


def objects(recording: Recording) -> list[tuple[str, Any]]:
    return [(one.urn, one.inputs) for one in recording.resources]


@pytest.mark.parametrize("stack", ["gateway", "prod"])  # together they make every object of the other stacks
def test_another_fit_changes_no_object_of_a_stack(stack: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before = objects(recorded_stack(stack))
    fitted_anew = half(calibration.contents())
    with monkeypatch.context() as changed:
        changed.setattr(calibration, "contents", lambda: fitted_anew)
        calibration.calibration.cache_clear()
        try:
            after = objects(record_stack(open_stack(ROOT, stack), "known"))
        finally:
            changed.undo()
            calibration.calibration.cache_clear()
    assert after == before


def half(value: Any) -> Any:
    """The same data with every number halved."""
    if isinstance(value, Mapping):
        return {key: half(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [half(one) for one in value]
    return value / 2 if isinstance(value, float) else value
