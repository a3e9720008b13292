"""`pulumi stack init` and `pulumi config set` change the lines that they should, and no other line of a stack file."""

from __future__ import annotations

from difflib import ndiff
from pathlib import Path

import pytest

from facts.names import stack_names
from lab.engine.pulumi import Pulumi
from tests.support.engine_form import rewritten
from tests.support.rows import each_row

ROOT = Path(__file__).resolve().parents[1]
FILES = sorted([*ROOT.glob("Pulumi.*.yaml"), *ROOT.glob("docs/examples/*/Pulumi.*.yaml")])

STRAY = [
    "config:\n  n:a: b\n\n  n:c: d\n",
    "config:\n  n:a: b\n  # at the end\n",
    "config:\n  n:a:\n    b: 1\n    # of a\n  n:c: d\n",
    "config:\n  n:a:\n      b: 1\n",
    "config:\n  n:a:\n  - 1\n",
    "config:\n  n:a: b  # two spaces\n",
    "config:\n  n:a: {b: 1.50}\n",
    "config:\n  n:a: {b: 1e3}\n",
    "config:\n  n:a: {b: 0x10}\n",
    "config:\n  n:a: {b: True}\n",
    "config:\n  n:a: {b: ~}\n",
    "config:\n  n:a: { b: 1 }\n",
    "config:\n  n:a: [1,\n    2]\n",
    "config:\n  n:a: 1\n",
    "config:\n  n:a: >-\n    b\n    c\n",
    "config:\n  n:a: b",
    "config:\n  a: b\n",
]
"""Files of which the engine changes more than it was asked to."""
KEPT = [
    "# head\n#\n# more\nconfig:\n  # of a\n  n:a: b # why\n  #\n  # of c\n  n:c: # why\n    # of d\n    d: 1\n",
    'config:\n  n:a:\n    - {b: [1, 2.5, true, null], "c": \'d\'}\n    - e: "1"\n      f: -3\n  n:g: ["x"] # why\n  n:h: {}\n',
]
"""Files of which it changes nothing else."""


@each_row("path", FILES)
def test_the_engine_would_keep_every_line(path: Path) -> None:
    assert rewritten(path.read_text(encoding="utf-8")) == []


@each_row("text", STRAY)
def test_what_the_engine_would_change_is_found(text: str) -> None:
    assert rewritten(text) != []


@pytest.mark.parametrize("text", KEPT)
def test_what_the_engine_keeps_is_not_reported(text: str) -> None:
    assert rewritten(text) == []


@pytest.fixture(scope="module")
def pulumi(tmp_path_factory: pytest.TempPathFactory) -> Pulumi:
    return Pulumi(ROOT, tmp_path_factory.mktemp("engine") / "run", providers={})


def changed(pulumi: Pulumi, stack: str, *arguments: str) -> list[str]:
    """The lines of a stack file that a command takes away and brings, with the engine's ciphertexts left out."""
    path = pulumi.project.stack_file(stack)
    before = path.read_text(encoding="utf-8")
    said = pulumi.run(*arguments, "--stack", stack)
    assert said.code == 0, said.stderr
    lines = [line for line in ndiff(before.splitlines(), path.read_text().splitlines()) if line[0] in "-+"]
    return [line.split("v1:")[0].rstrip() for line in lines]


@pytest.mark.slow
@pytest.mark.parametrize("stack", stack_names(ROOT))
def test_a_command_changes_one_line_of_a_shipped_file(pulumi: Pulumi, stack: str) -> None:
    shipped = pulumi.project.stack_file(stack).read_text(encoding="utf-8")
    (project,) = (line for line in shipped.splitlines() if line.startswith("  gcp:project: "))
    assert changed(pulumi, stack, "stack", "init") == ["+ encryptionsalt:"]
    assert changed(pulumi, stack, "config", "set", "gcp:project", "my-project") == [
        f"- {project}",
        f"+ {project.replace('your-project-id', 'my-project')}",
    ]


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Pulumi:
    root = tmp_path_factory.mktemp("bare")
    (root / "Pulumi.yaml").write_text("name: bare\nruntime: python\n")
    pulumi = Pulumi(root, root / "run", providers={})
    assert pulumi.run("stack", "init", "any").code == 0
    return pulumi


@pytest.mark.slow
@pytest.mark.parametrize("text", [*STRAY, *KEPT])
def test_the_engine_is_of_the_same_opinion(bare: Pulumi, text: str) -> None:
    path = bare.project.stack_file("any")
    path.write_text(text)
    section = (
        "n:a." if "# of a\n  n:c" in text else "other:"
    )  # a comment at the end of a section moves with a key of that section
    assert bare.run("config", "set", "--path", f"{section}new", "x", "--stack", "any").code == 0
    kept = [line for line in path.read_text().splitlines(keepends=True) if not line.endswith("new: x\n")]
    assert ("".join(kept) == text) == (text in KEPT)
