from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pulumi
import pytest

from facts.finding import Finding
from fleet.cli.exits import error_text
from fleet.preview.record.recorder import UNKNOWN, ProgramError, Recording, Secret, StackOutputs
from fleet.preview.record.stack_references import StackReferences
from tests.fleet.preview.programs import TOKEN, run


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for stack in ("base", "guest"):
        (tmp_path / f"Pulumi.{stack}.yaml").write_text("config: {}\n")
    (tmp_path / "stack-outputs").mkdir()
    return tmp_path


def base() -> None:
    pulumi.export("network", "fleet")
    pulumi.export("size", 3)
    pulumi.export("token", pulumi.Config().require_secret("token"))


def guest_of(name: str) -> None:
    other = pulumi.StackReference(name)
    pulumi.export("network", other.get_output("network"))
    pulumi.export("size", other.get_output("size"))
    pulumi.export("token", other.get_output("token"))
    pulumi.export("absent", other.get_output("absent"))


def references(root: Path, programs: Callable[[str], Callable[[], None]] = lambda _: base) -> StackReferences:
    """The references of stack guest to the stacks of these programs."""

    def record_stack(stack: str, nested: StackReferences) -> Recording:
        return run(programs(stack), "known", stack=stack, stack_outputs=nested)

    return StackReferences(root, project="fixture", stack="guest", record_stack=record_stack)


def guest(root: Path, name: str, mode: str = "known") -> Recording:
    return run(lambda: guest_of(name), mode, stack="guest", stack_outputs=references(root))  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["organization/fixture/base", "organization/base", "base"])
@pytest.mark.parametrize("mode", ["preview", "known"])
def test_another_stack_of_the_project_is_recorded(root: Path, name: str, mode: str) -> None:
    recording = guest(root, name, mode)
    assert recording.outputs == {"network": "fleet", "size": 3, "token": Secret(TOKEN)}


@pytest.mark.parametrize("name", ["fixture/base", "a/organization/fixture/base"])
def test_a_name_that_no_backend_takes_is_refused(root: Path, name: str) -> None:
    with pytest.raises(ProgramError, match="organization/project/stack"):
        guest(root, name)


def test_the_source_of_the_outputs_is_said(root: Path) -> None:
    (said,) = guest(root, "base").diagnostics
    assert said.severity == "info"
    assert "recorded from Pulumi.base.yaml" in said.message


def test_a_stack_of_another_project_is_read_from_a_saved_file(root: Path) -> None:
    saved = {"network": "theirs", "size": 5, "token": "[secret]"}
    (root / "stack-outputs" / "platform.prod.json").write_text(json.dumps(saved))
    recording = guest(root, "acme/platform/prod")
    assert recording.outputs == {"network": "theirs", "size": 5, "token": Secret("[secret]")}
    assert "read from stack-outputs/platform.prod.json" in recording.diagnostics[0].message


@pytest.mark.parametrize("mode", ["preview", "known"])
def test_what_nobody_knows_is_unknown_and_says_where_it_was_looked_for(root: Path, mode: str) -> None:
    recording = guest(root, "acme/platform/prod", mode)
    assert recording.outputs == {"network": UNKNOWN, "size": UNKNOWN, "token": UNKNOWN, "absent": UNKNOWN}
    message = recording.diagnostics[0].message
    assert "acme/platform/prod" in message
    assert "stack-outputs/platform.prod.json" in message


def test_without_a_source_of_outputs_they_are_unknown() -> None:
    recording = run(lambda: guest_of("a/b/c"))
    assert recording.outputs["network"] is UNKNOWN


def test_one_unknown_output_makes_all_unknown_and_is_named() -> None:
    outputs = StackOutputs(values={"network": "fleet", "size": {"gib": UNKNOWN}}, source="made up")
    recording = run(lambda: guest_of("base"), stack_outputs=lambda _: outputs)
    assert recording.outputs["network"] is UNKNOWN
    assert "are unknown: made up; nobody knows size.gib, and" in recording.diagnostics[0].message


def test_each_stack_is_recorded_once(root: Path) -> None:
    recorded: list[str] = []
    source = references(root, lambda stack: recorded.append(stack) or base)  # type: ignore[func-returns-value]
    assert source("base").values == source("base").values
    assert recorded == ["base"]


def test_stacks_that_refer_to_each_other_are_refused(root: Path) -> None:
    source = references(root, lambda stack: lambda: guest_of({"base": "guest", "guest": "base"}[stack]))
    with pytest.raises(ProgramError, match=r"in a circle: guest -> base -> guest"):
        run(lambda: guest_of("base"), stack="guest", stack_outputs=source)


def test_an_error_of_the_other_stack_names_it(root: Path) -> None:
    def broken() -> None:
        raise ValueError("no zone")

    source = references(root, lambda _: broken)
    with pytest.raises(ProgramError, match=r"^stack base, .*: no zone"):
        run(lambda: guest_of("base"), stack="guest", stack_outputs=source)


@pytest.mark.parametrize(("text", "complaint"), [("{", "is not JSON"), ("[1]", "holds no map of outputs")])
def test_a_saved_file_of_another_shape_is_refused(root: Path, text: str, complaint: str) -> None:
    (root / "stack-outputs" / "platform.prod.json").write_text(text)
    with pytest.raises(ProgramError, match=rf"{complaint}.*pulumi stack output --json"):
        guest(root, "acme/platform/prod")


def test_a_refusal_of_the_program_keeps_its_lines_and_names_no_line_of_code() -> None:
    problem = Finding(id="x", subject="vllm-fleet:platform.stack", found="spot", allowed="a", why="b", write="c")

    def refuses() -> None:
        raise pulumi.RunError(problem.text())

    with pytest.raises(ProgramError) as refusal:
        run(refuses, "known", stack="guest")
    assert refusal.value.message == problem.text()
    assert error_text(refusal.value) == f"fleet: the program could not be recorded:\n\n{problem.text()}"
