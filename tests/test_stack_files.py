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


def difference(before: str, after: str) -> list[str]:
    """The lines that went and came, with the engine's ciphertexts left out."""
    changed = [line for line in ndiff(before.splitlines(), after.splitlines()) if line[0] in "-+"]
    return [line.split("v1:")[0].rstrip() for line in changed]


def changed(pulumi: Pulumi, stack: str, *arguments: str, given: str = "") -> list[str]:
    """What a command changes in a stack file."""
    path = pulumi.project.stack_file(stack)
    before = path.read_text(encoding="utf-8")
    said = pulumi.run(*arguments, "--stack", stack, given=given)
    assert said.code == 0, said.stderr
    return difference(before, path.read_text(encoding="utf-8"))


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


@pytest.mark.slow
def test_each_command_changes_the_lines_that_it_should(tmp_path: Path) -> None:
    """In one file: the test above has each of them."""
    pulumi = Pulumi(ROOT, tmp_path / "run", providers={})
    path = pulumi.project.stack_file("prod")
    shipped = path.read_text(encoding="utf-8")
    (profile,) = (line for line in shipped.splitlines() if line.startswith("    profile: "))
    name = profile.split()[1]

    def of(*arguments: str, given: str = "") -> list[str]:
        return changed(pulumi, "prod", *arguments, given=given)

    assert of("stack", "init") == ["+ encryptionsalt:"]
    assert of("config", "set", "gcp:billingProject", "other") == ["+   gcp:billingProject: other"]
    assert of("config", "set", "--path", "vllm-fleet:server.profile", "mine") == [
        f"- {profile}",
        f"+ {profile.replace(name, 'mine', 1)}",
    ]
    assert of("config", "set", "--path", "vllm-fleet:server.new", "3") == ["+     new: 3"]
    assert of("config", "set", "--path", "vllm-fleet:new.inner[0]", "x") == [
        "+   vllm-fleet:new:",
        "+     inner:",
        "+       - x",
    ]
    assert of("config", "set", "--secret", "hfToken", given="hush") == ["+   vllm-fleet:hfToken:", "+     secure:"]
    assert of("config", "rm", "gcp:billingProject") == ["-   gcp:billingProject: other"]
    assert of("config", "rm", "--path", "vllm-fleet:server.new") == ["-     new: 3"]
    for key in ("vllm-fleet:new", "hfToken"):
        of("config", "rm", key)
    of("config", "set", "--path", "vllm-fleet:server.profile", name)
    assert difference(shipped, path.read_text(encoding="utf-8")) == ["+ encryptionsalt:"]


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
