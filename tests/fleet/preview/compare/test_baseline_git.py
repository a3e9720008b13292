"""The program of a git reference, recorded beside this one: real repositories, real processes."""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path

import pytest

from fleet.preview import children
from fleet.preview.compare.baseline import BaselineError
from fleet.preview.compare.baseline_git import GitBaseline
from fleet.preview.record.recording import Recording

pytestmark = pytest.mark.slow

PROGRAM = """\
import pulumi
import names

config = pulumi.Config()
for zone in config.require_object("zones"):
    pulumi.CustomResource("gcp:compute/network:Network", f"net-{zone}", {"name": names.PREFIX + zone})
pulumi.export("prefix", names.PREFIX)
"""
STACK = "config:\n  gcp:project: fixture-project\n  vllm-fleet:zones: [a, b]\n"


def git(root: Path, *arguments: str) -> str:
    identity = {"GIT_AUTHOR_NAME": "t", "GIT_AUTHOR_EMAIL": "t@example.com"}
    identity |= {"GIT_COMMITTER_NAME": "t", "GIT_COMMITTER_EMAIL": "t@example.com"}
    done = subprocess.run(
        ("git", *arguments), cwd=root, env=os.environ | identity, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def committed(root: Path) -> None:
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--allow-empty", "--message", "another")


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A project with one commit on branch `main`."""
    root = tmp_path / "repository"
    root.mkdir()
    git(root, "init", "--quiet", "--initial-branch=main")
    (root / "Pulumi.yaml").write_text("name: vllm-fleet\nruntime: python\n")
    (root / "Pulumi.dev.yaml").write_text(STACK)
    (root / "__main__.py").write_text(PROGRAM)
    (root / "names.py").write_text('PREFIX = "old-"\n')
    # A program may have a folder of any name; it is the program's, not the recorder's.
    (root / "settings").mkdir()
    (root / "settings" / "__init__.py").write_text("MARK = 1\n")
    (root / ".gitattributes").write_text("names.py export-ignore\n")
    committed(root)
    return root


def recorded(root: Path, reference: str = "main", stack: str = "dev") -> Recording:
    with GitBaseline(reference, root, (stack,)) as baseline:
        return baseline.wait(stack).recording


def networks(recording: Recording) -> list[str]:
    return [one.inputs["name"] for one in recording.resources if "Network" in one.type]


def test_a_package_of_the_recorders_name_is_the_other_programs(repository: Path) -> None:
    (repository / "facts").mkdir()
    (repository / "facts" / "__init__.py").touch()
    (repository / "facts" / "figures.py").write_text('OLD = "old-"\n')
    (repository / "names.py").write_text("from facts.figures import OLD as PREFIX\n")
    committed(repository)
    (repository / "facts" / "figures.py").write_text('OLD = "new-"\n')
    assert networks(recorded(repository)) == ["old-a", "old-b"]


def left_behind() -> set[str]:
    return {path.name for path in Path(tempfile.gettempdir()).glob("fleet-tmp-against-*")}


def test_names_that_are_not_utf_8_are_no_hindrance(repository: Path) -> None:
    moved = repository.rename(repository.with_name(os.fsdecode(b"repository-\xff")))
    (moved / os.fsdecode(b"names-\xff.py")).write_text("")
    inner = moved / os.fsdecode(b"project-\xff")
    inner.mkdir()
    for name in ("Pulumi.yaml", "Pulumi.dev.yaml", "__main__.py", "names.py"):
        (inner / name).write_bytes((moved / name).read_bytes())
    committed(moved)
    for root in (moved, inner):
        assert networks(recorded(root)) == ["old-a", "old-b"]


def test_the_program_is_that_of_the_reference_and_so_are_its_modules_and_stack_file(repository: Path) -> None:
    (repository / "names.py").write_text('PREFIX = "new-"\n')
    (repository / "Pulumi.dev.yaml").write_text(STACK.replace("[a, b]", "[c]"))
    recording = recorded(repository)
    assert networks(recording) == ["old-a", "old-b"]
    assert recording.outputs == {"prefix": "old-"}
    assert (recording.mode, recording.stack, recording.project) == ("preview", "dev", "vllm-fleet")


def test_the_checkout_stays_as_it_is_and_nothing_is_left_behind(repository: Path) -> None:
    (repository / "names.py").write_text("this is not Python\n")
    (repository / "untracked.txt").write_text("mine\n")
    git(repository, "add", "names.py")
    before = (git(repository, "status", "--porcelain"), git(repository, "stash", "list"), left_behind())
    index = (repository / ".git" / "index").read_bytes()
    recorded(repository)
    assert (git(repository, "status", "--porcelain"), git(repository, "stash", "list"), left_behind()) == before
    assert git(repository, "worktree", "list").count("\n") == 0
    assert (repository / ".git" / "index").read_bytes() == index
    assert not list(repository.rglob("__pycache__"))


def test_several_stacks_take_one_process(repository: Path) -> None:
    (repository / "Pulumi.other.yaml").write_text(STACK.replace("[a, b]", "[x]"))
    committed(repository)
    with GitBaseline("main", repository, ("dev", "other")) as baseline:
        both = [baseline.wait(stack).recording for stack in ("dev", "other")]
    assert [networks(one) for one in both] == [["old-a", "old-b"], ["old-x"]]


def test_a_tag_a_commit_and_an_ancestor_are_references(repository: Path) -> None:
    commit = git(repository, "rev-parse", "HEAD")
    git(repository, "tag", "v1")
    committed(repository)
    for reference, label in (("v1", f"v1 ({commit[:8]})"), (commit, commit[:8]), ("HEAD~1", f"HEAD~1 ({commit[:8]})")):
        with GitBaseline(reference, repository, ("dev",)) as baseline:
            assert baseline.wait("dev").label == label


def test_a_project_in_a_folder_of_its_repository(tmp_path: Path, repository: Path) -> None:
    inner = tmp_path / "outer" / "deep" / "project"
    inner.parent.mkdir(parents=True)
    repository.rename(inner)
    outer = tmp_path / "outer"
    (inner / ".git").rename(tmp_path / "old-git")
    git(outer, "init", "--quiet", "--initial-branch=main")
    committed(outer)
    assert networks(recorded(inner)) == ["old-a", "old-b"]


def test_a_hook_of_git_may_call_it(repository: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(tmp_path / "index-of-the-hook"))
    assert networks(recorded(repository)) == ["old-a", "old-b"]
    assert not (tmp_path / "index-of-the-hook").exists()


def test_without_the_stack_file_everything_is_new(repository: Path) -> None:
    (repository / "Pulumi.new.yaml").write_text(STACK)
    with GitBaseline("main", repository, ("new",)) as baseline:
        found = baseline.wait("new")
    assert found.recording.resources == ()
    assert "Pulumi.new.yaml" in found.remarks[0]


def test_a_program_that_fails_says_whose_it_is(repository: Path) -> None:
    (repository / "names.py").write_text("raise RuntimeError('too old')\n")
    committed(repository)
    before = left_behind()
    with pytest.raises(BaselineError, match=r"program of main \(\w{8}\).*: too old \(names.py:1\)"):
        recorded(repository)
    assert left_behind() == before


def test_a_process_that_dies_says_what_it_said(repository: Path) -> None:
    (repository / "names.py").write_text(
        "import os, sys\nsys.stderr.write('no memory left')\nsys.stderr.flush()\nos._exit(7)\n"
    )
    committed(repository)
    with pytest.raises(BaselineError, match=r"ended with 7:\nno memory left"):
        recorded(repository)


def test_what_the_program_prints_disturbs_nobody(repository: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (repository / "names.py").write_text("print('x' * 1_000_000)\nPREFIX = 'loud-'\n")
    committed(repository)
    assert networks(recorded(repository)) == ["loud-a", "loud-b"]
    assert capfd.readouterr().out == ""


def test_an_interrupted_preview_leaves_no_process_and_no_folder(repository: Path) -> None:
    (repository / "names.py").write_text("import time\ntime.sleep(60)\n")
    committed(repository)
    before = left_behind()

    def interrupted() -> None:
        with GitBaseline("main", repository, ("dev",)):
            assert left_behind() - before
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert left_behind() == before
    assert not children._ALIVE


def test_a_reference_that_is_none_says_how_to_get_one(repository: Path, tmp_path: Path) -> None:
    with pytest.raises(BaselineError, match="git reference 'nowhere' not found"):
        GitBaseline("nowhere", repository, ("dev",))
    clone = tmp_path / "shallow"
    committed(repository)
    git(tmp_path, "clone", "--quiet", "--depth=1", repository.as_uri(), str(clone))
    with pytest.raises(BaselineError, match="this clone is shallow; run git fetch"):
        GitBaseline("HEAD~1", clone, ("dev",))
    git(clone, "checkout", "--quiet", "--detach")
    git(clone, "branch", "--quiet", "-D", "main")
    with pytest.raises(BaselineError, match="did you mean origin/main"):
        GitBaseline("main", clone, ("dev",))


def test_an_option_is_no_reference(repository: Path) -> None:
    with pytest.raises(BaselineError, match="git reference '--all' not found"):
        GitBaseline("--all", repository, ("dev",))


def test_outside_of_a_repository_there_is_no_reference(tmp_path: Path) -> None:
    with pytest.raises(BaselineError, match="git repository"):
        GitBaseline("main", tmp_path, ("dev",))


def test_a_stack_file_that_cannot_be_read_is_refused(repository: Path) -> None:
    (repository / "Pulumi.dev.yaml").write_text("config: [\n")
    committed(repository)
    with pytest.raises(BaselineError, match=r"Pulumi.dev.yaml of main \(\w{8}\) cannot be read"):
        recorded(repository)


def test_other_pins_and_secrets_sealed_anew_are_told(repository: Path) -> None:
    (repository / "requirements.txt").write_text("pulumi==3.1.0\nother==1\n")
    secret = STACK + "  vllm-fleet:key:\n    secure: AAA\n"
    (repository / "Pulumi.dev.yaml").write_text("encryptionsalt: v1:x\n" + secret)
    committed(repository)
    (repository / "requirements.txt").write_text("pulumi==3.2.0  # newer\nother==1\n")
    (repository / "Pulumi.dev.yaml").write_text("encryptionsalt: v1:x\n" + secret.replace("AAA", "BBB"))
    with GitBaseline("main", repository, ("dev",)) as baseline:
        pins, sealed = baseline.wait("dev").remarks
    assert "pulumi 3.1.0" in pins
    assert "vllm-fleet:key" in sealed
    assert "AAA" not in sealed


def test_a_stack_reference_is_answered_from_the_reference(repository: Path) -> None:
    (repository / "__main__.py").write_text(
        "import pulumi\n"
        "if pulumi.get_stack() == 'dev':\n"
        "    base = pulumi.StackReference('organization/vllm-fleet/base')\n"
        "    pulumi.export('from', base.require_output('name'))\n"
        "else:\n"
        "    pulumi.export('name', 'the-base')\n"
    )
    (repository / "Pulumi.base.yaml").write_text(STACK)
    committed(repository)
    (repository / "Pulumi.base.yaml").unlink()
    assert recorded(repository).outputs == {"from": "the-base"}
