"""Two stack files of one folder that take the same name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from fleet.preview.offline import open_stack
from settings.neighbours import beside_others
from settings.problems import SettingsError
from settings.stack_file import read
from tests.support.settings import BASE


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "Pulumi.yaml").write_text("name: vllm-fleet\n")
    return tmp_path


def write(
    root: Path, stack: str, *, project: str = "fleet-tests", region: str = "europe-west4", **sections: Any
) -> None:
    keys = {f"vllm-fleet:{name}": value for name, value in (BASE | sections).items()}
    config = {"gcp:project": project, "gcp:region": region, **keys}
    (root / f"Pulumi.{stack}.yaml").write_text(yaml.safe_dump({"config": config}))


def taken(root: Path, stack: str = "one") -> list[tuple[str, Any]]:
    return [(one.subject, one.found) for one in beside_others(root, stack, read(root, stack).config)]


def test_two_stacks_that_name_nothing_meet_nowhere(root: Path) -> None:
    write(root, "one")
    write(root, "two")
    assert taken(root) == []


@pytest.mark.parametrize(
    ("one", "two", "path", "name"),
    [
        ({"namespace": "chat"}, {"namespace": "chat"}, "namespace", "chat"),
        ({"namespace": "vllm-two"}, {}, "namespace", "vllm-two"),
        ({"namespace": "chat"}, {"namespace": "chat", "region": "us-central1"}, "namespace", "chat"),
        ({"namespace": "chat", "platform": {"stack": "o/p/two"}}, {"namespace": "chat"}, "namespace", "chat"),
        ({"cluster": {"name": "search"}}, {"cluster": {"name": "search"}}, "cluster.name", "search"),
    ],
)
def test_a_name_that_another_stack_takes_is_refused(
    root: Path, one: dict[str, Any], two: dict[str, Any], path: str, name: str
) -> None:
    write(root, "one", **one)
    write(root, "two", **two)
    assert taken(root) == [(f"vllm-fleet:{path}", name)]


@pytest.mark.parametrize(
    "two",
    [
        {"namespace": "chat", "project": "another-project"},
        {"cluster": {"name": "search"}, "region": "us-central1"},
        {"cluster": {"name": "search"}, "platform": {"stack": "o/p/one"}},  # unused, and refused in its own right
    ],
)
def test_the_same_name_elsewhere_is_another_name(root: Path, two: dict[str, Any]) -> None:
    write(root, "one", namespace="chat", cluster={"name": "search"})
    write(root, "two", **two)
    assert taken(root) == []


@pytest.mark.parametrize("text", ["config: [", "config:\n  vllm-fleet:cluster: 5\n"])
def test_a_broken_neighbour_stops_nobody(root: Path, text: str) -> None:
    """What else no stack file may be is refused in the same way: test_stack_file.py."""
    write(root, "one")
    (root / "Pulumi.two.yaml").write_text(text)
    (root / "Pulumi.three.yaml").write_bytes(b"\xff\xfe\x00")
    (root / "Pulumi.four.yaml").mkdir()
    assert taken(root) == []


def test_a_neighbour_that_is_mended_is_read_again(root: Path) -> None:
    write(root, "one", namespace="chat")
    write(root, "two", namespace="chat")
    assert taken(root)
    (root / "Pulumi.two.yaml").unlink()
    assert taken(root) == []


def test_an_offline_run_of_such_a_stack_is_refused(root: Path) -> None:
    write(root, "one", namespace="chat")
    write(root, "two", namespace="chat")
    with pytest.raises(SettingsError) as refusal:
        open_stack(root, "one")
    assert [one.id for one in refusal.value.problems] == ["name-taken"]
