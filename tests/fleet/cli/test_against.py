"""`fleet preview --against` on the project itself: a clone in which one thing changes at a time."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from facts.names import stack_names
from fleet.preview.compare.changes import Changes
from fleet.preview.compare.compare import compare
from fleet.preview.offline import open_stack, record_stack
from tests.fleet.cli.command import ROOT, fleet
from tests.fleet.preview.fleets import one_of
from tests.support.stacks import recorded_stack

pytestmark = pytest.mark.slow

PACKAGES = ("facts", "fleet", "infra", "settings", "workloads")


def git(root: Path, *arguments: str) -> None:
    identity = {f"GIT_{who}_{what}": "t@example.com" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    subprocess.run(("git", *arguments), cwd=root, env=os.environ | identity, check=True, capture_output=True)


@pytest.fixture(scope="module")
def committed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The product in a repository of its own, with one commit."""
    root = tmp_path_factory.mktemp("clone")
    for name in PACKAGES:
        shutil.copytree(ROOT / name, root / name, ignore=shutil.ignore_patterns("__pycache__"))
    for file in (*ROOT.glob("Pulumi.*"), ROOT / "__main__.py", ROOT / "requirements.txt"):
        shutil.copy(file, root)
    (root / ".gitignore").write_text("__pycache__/\n")
    git(root, "init", "--quiet", "--initial-branch=main")
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message", "as it is")
    return root


@pytest.fixture
def clone(committed: Path) -> Iterator[Path]:
    """The clone, as committed before and after."""
    yield committed
    git(committed, "checkout", "--quiet", "--", ".")
    git(committed, "clean", "--quiet", "--force")


def against(
    clone: Path, *options: str, stack: str = "spot", reference: str = "main"
) -> subprocess.CompletedProcess[str]:
    return fleet(
        "preview", "--stack", stack, "--no-policy", "--against", reference, *options, cwd=clone, PYTHONPATH=str(clone)
    )


def changes(clone: Path, **options: str) -> dict[str, Any]:
    """What the command prints for machines; it must tell that there are changes."""
    done = against(clone, "--format", "json", "--detailed-exitcode", **options)
    assert done.returncode == 4, done.stderr
    return dict(json.loads(done.stdout)["changes"])


def with_stack_file(clone: Path, stack: str) -> Changes:
    """The clone's stack file against that of the product, in this process: the code is the same."""
    return compare(recorded_stack(stack, "preview"), record_stack(open_stack(clone, stack), "preview"), against="main")


def edit(file: Path, old: str, new: str) -> None:
    text = file.read_text()
    assert text.count(old) == 1, f"{old!r} is in {file.name} {text.count(old)} times"
    file.write_text(text.replace(old, new))


def delta(found: Changes, id_: str) -> tuple[float | None, float | None]:
    [one] = [one for one in found.deltas if one.id == id_]
    return one.before, one.after


def dangers(found: Changes) -> set[str]:
    return {one.id for one in found.dangers}


def test_the_same_code_and_stack_file_change_nothing(clone: Path) -> None:
    done = against(clone, "--detailed-exitcode")
    assert (done.returncode, done.stderr) == (0, "")
    assert "No resource changes" in done.stdout


def more_replicas(clone: Path) -> None:
    """Fourteen instead of twelve, and a load that one pod of clients can bring to them."""
    edit(clone / "Pulumi.spot.yaml", "replicas: 12 #", "replicas: 14 #")
    edit(clone / "Pulumi.spot.yaml", "vllm-fleet:benchmark:\n", "vllm-fleet:benchmark:\n    concurrency: [1700]\n")


def test_other_capacity_is_a_danger(clone: Path) -> None:
    held = "    mode: reservation\n    name: b200\n    nodes: 12\n    usdPerNodeHour: 60\n"
    edit(clone / "Pulumi.spot.yaml", "    mode: spot\n", f"{held}  vllm-fleet:labels: {{environment: trial}}\n")
    found = with_stack_file(clone, "spot")
    assert dangers(found) == {"capacity-changed"}
    assert "from Spot to reservation b200" in found.dangers[0].message
    before, after = delta(found, "usd-per-hour")
    assert before is not None
    assert after == pytest.approx(before + 12 * (60 - 34.0736), abs=0.1)


def test_another_revision_of_the_model_writes_new_weights_beside_the_old_ones(clone: Path) -> None:
    model = "  vllm-fleet:model: {id: Qwen/Qwen3.5-27B-FP8, revision: " + "a" * 40 + ", sizeGb: 29}\n"
    edit(clone / "Pulumi.spot.yaml", "  vllm-fleet:server:\n", f"{model}  vllm-fleet:server:\n")
    found = with_stack_file(clone, "spot")
    volumes = [one for one in found.resources if one.type.endswith(":PersistentVolumeClaim")]
    assert [one.operation for one in volumes] == ["create", "create", "delete", "delete"]
    assert dangers(found) == {"weights-replaced"}
    replaced = {one.name for one in found.resources if one.operation == "replace"}
    assert replaced == {"benchmark-scripts", "benchmark-job"}  # which run again, beside the weights
    assert one_of(found, "server-deployment").operation == "update"
    assert found.blast_radius.replicas_restarted == 12


def test_another_region_shouts(clone: Path) -> None:
    edit(clone / "Pulumi.spot.yaml", "gcp:region: europe-west4", "gcp:region: us-central1")
    edit(clone / "Pulumi.spot.yaml", '["europe-west4-b"]', '["us-central1-b"]')
    found = with_stack_file(clone, "spot")
    assert {"cluster-replaced", "weights-replaced", "all-replicas-at-once"} <= dangers(found)
    assert not any(one.guessed for one in found.resources)
    assert {one_of(found, name).operation for name in ("network-nodes", "network-router", "network-nat")} == {"replace"}


def test_changes_exit_with_4_if_they_are_asked_for(clone: Path) -> None:
    more_replicas(clone)
    assert against(clone).returncode == 0
    assert changes(clone)["headline"][0] == "2 more replicas (16 GPUs)"


def test_every_stack_is_compared_at_once(clone: Path) -> None:
    edit(clone / "Pulumi.dev.yaml", "replicas: 1 ", "replicas: 2 ")
    done = fleet(
        "preview", "--all-stacks", "--no-policy", "--against", "main", "--detailed-exitcode", "--format", "markdown",
        cwd=clone, PYTHONPATH=str(clone),
    )  # fmt: skip
    assert done.returncode == 4, done.stderr
    assert "1 more replica (8 GPUs)" in done.stdout
    assert "1 of 7 stacks changed: dev" in done.stdout
    assert done.stdout.count(" | no changes | ") == len(stack_names(clone)) - 1


def test_a_reference_that_is_none_and_an_exit_code_without_one_are_refused(clone: Path) -> None:
    for options, named in ((("--against", "nowhere"), "'nowhere'"), (("--detailed-exitcode",), "needs --against")):
        done = fleet("preview", "--stack", "dev", "--no-policy", *options, cwd=clone, PYTHONPATH=str(clone))
        assert (done.returncode, done.stdout) == (2, "")
        assert named in done.stderr
        assert "Traceback" not in done.stderr
