"""What the components' arguments refuse by themselves, and that they need nothing of this program's stack files."""

from __future__ import annotations

import ast
import dataclasses
import importlib
from dataclasses import replace
from typing import Any

import pytest

from settings.derived.traffic import Traffic
from settings.sections.docstrings import field_docs
from settings.sections.engine import Engine
from tests.support.settings import make_settings
from tests.workloads.args import server_args, weights_args
from workloads.namespace import NamespaceArgs
from workloads.pod_programs import FOLDER

ANY: Any = object()
MODULES = sorted(
    ".".join(path.relative_to(FOLDER.parent).with_suffix("").parts)
    for path in FOLDER.rglob("*.py")
    if path.stem != "__init__" and path.parent.name != "pods"
)


@pytest.mark.parametrize(
    ("field", "wrong"),
    [("name", "Chat"), ("name", "a" * 41), ("startup_minutes", 4), ("replicas", -1), ("replicas", 1_001)],
)
def test_a_server_that_kubernetes_or_a_stack_file_would_refuse_is_refused(field: str, wrong: Any) -> None:
    with pytest.raises(ValueError, match=rf"^ServerArgs\.{field} is {wrong!r}"):
        server_args(make_settings(), **{field: wrong})


def test_a_server_whose_engines_need_more_gpus_than_a_pod_has_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^ServerArgs\.engine uses 16 GPUs"):
        server_args(make_settings(), engine=Engine(data_parallel_size=8, tensor_parallel_size=2))


@pytest.mark.parametrize("zones", [(), ("europe-west4-b", "us-central1-b")], ids=["none", "of two regions"])
def test_weights_are_made_in_zones_of_one_region(zones: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match=r"^WeightsArgs\.zones"):
        replace(weights_args(make_settings()), zones=zones)


def test_a_quota_below_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^NamespaceArgs\.gpus is -8"):
        NamespaceArgs(name="chat", traffic=Traffic(server="chat"), gpus=-8)


def test_what_is_left_out_is_what_a_stack_file_would_leave_out() -> None:
    """A default has one place, the section of the stack file; where a component's own is another field, it says the same."""
    settings = make_settings()
    assert server_args(settings).startup_minutes == settings.server.startup_minutes


@pytest.mark.parametrize("module", MODULES)
def test_every_argument_has_its_docstring(module: str) -> None:
    found = importlib.import_module(module)
    for name, one in vars(found).items():
        if name.endswith("Args") and one.__module__ == found.__name__:
            assert {field.name for field in dataclasses.fields(one)} - field_docs(one).keys() == set(), name


@pytest.mark.parametrize("module", MODULES)
def test_no_component_knows_a_stacks_settings(module: str) -> None:
    tree = ast.parse((FOLDER.parent / f"{module.replace('.', '/')}.py").read_text(encoding="utf-8"))
    imported = {str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert imported.isdisjoint({"settings.stack", "settings.load", "settings.stack_file"})
