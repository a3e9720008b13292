"""The offline job of a pull request, its own commands in a fresh clone of a changed repository, as anyone's fork runs it."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from facts.names import stack_names
from tests.workflows.steps import ROOT, outputs, run, stand_in, workflow

pytestmark = pytest.mark.slow

STEPS = [one for one in workflow("preview")["jobs"]["offline"]["steps"] if "run" in one]
FORMATS = ("md", "html", "json")


@dataclass(frozen=True)
class Job:
    """What is left when the job has run."""

    clone: Path
    summary: str
    outputs: dict[str, str]
    log: str
    failed_step: str | None

    def report(self, format_: str) -> str:
        return (self.clone / "out" / "pull-request" / f"preview.{format_}").read_text()


def git(folder: Path, *arguments: str) -> str:
    who = ("-c", "user.name=A", "-c", "user.email=a@example.com", "-c", "advice.detachedHead=false")
    return subprocess.run(
        ["git", *who, *arguments], cwd=folder, check=True, capture_output=True, text=True
    ).stdout.strip()


def clone_with_change(folder: Path, old: str, new: str) -> Path:
    """A clone on a branch that changes the spot stack's file, as actions/checkout leaves it."""
    clone = folder / "clone"
    git(folder, "clone", "--quiet", "--no-local", "--depth", "1", ROOT.as_uri(), "clone")
    git(clone, "update-ref", "refs/remotes/origin/main", "HEAD")
    git(clone, "switch", "--quiet", "--create", "sample-change")
    stack = clone / "Pulumi.spot.yaml"
    text = stack.read_text()
    assert text.count(old) == 1
    stack.write_text(text.replace(old, new))
    git(clone, "commit", "--quiet", "--all", "--message", "Change")
    return clone


def lend_packages(clone: Path) -> None:
    """Give the clone this interpreter's packages as its `.venv`, up to date, so that `make setup` has nothing to fetch."""
    environment = clone / ".venv"
    environment.mkdir()
    for part in Path(sys.prefix).iterdir():
        if part.name != ".installed":
            (environment / part.name).symlink_to(part)
    (environment / ".installed").touch()


def run_job(clone: Path) -> Job:
    summary, output = clone.parent / "summary.md", clone.parent / "output"
    summary.touch()
    environment = {
        "GITHUB_BASE_REF": "main",
        "GITHUB_STEP_SUMMARY": str(summary),
        "GITHUB_OUTPUT": str(output),
        # The clone's own code comes before the code that the lent packages link to.
        "PYTHONPATH": str(clone),
        # No network: a proxy nobody listens at, and no package index.
        "https_proxy": "http://127.0.0.1:9",
        "http_proxy": "http://127.0.0.1:9",
        "PIP_NO_INDEX": "1",
    }
    log, failed = [], None
    for one in STEPS:
        if failed and one.get("if") != "${{ !cancelled() }}":
            continue
        known = outputs(output)
        given = {
            name: str(value).replace("${{ steps.preview.outputs.code }}", known.get("code", ""))
            for name, value in one.get("env", {}).items()
        }
        assert not any("${{" in value for value in given.values()), given
        done = run(one["run"], cwd=clone, environment=environment | given)
        log += [f"# {one['name']}", done.stdout, done.stderr]
        if done.returncode and failed is None:
            failed = str(one["name"])
    return Job(
        clone=clone, summary=summary.read_text(), outputs=outputs(output), log="\n".join(log), failed_step=failed
    )


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Job:
    clone = clone_with_change(tmp_path_factory.mktemp("fewer"), "replicas: 12", "replicas: 10")
    lend_packages(clone)
    return run_job(clone)


def test_the_job_passes_and_says_so(job: Job) -> None:
    assert job.failed_step is None, job.log
    assert job.outputs == {"code": "0", "written": "true"}


def test_every_format_says_what_the_change_does_and_the_summary_is_one(job: Job) -> None:
    assert job.report("md") == job.summary
    assert job.report("html").lower().startswith("<!doctype html>")
    stacks = {one["stack"]: one["changes"] for one in json.loads(job.report("json"))["stacks"]}
    assert next(iter(stacks)) == "spot"
    assert set(stacks) == set(stack_names(ROOT))
    assert {stack for stack, changes in stacks.items() if changes["pending"]} == {"spot"}
    deltas = {one["id"]: (one["before"], one["after"]) for one in stacks["spot"]["deltas"]}
    assert deltas["replicas"] == (12, 10)
    assert deltas["gpus"] == (96, 80)


def test_the_report_fits_a_comment(job: Job) -> None:
    assert len(job.summary) < 65_000


def test_the_job_leaves_the_checkout_as_it_was(job: Job) -> None:
    assert git(job.clone, "status", "--porcelain") == ""


FLEET = """
for argument in "$@"; do
  case "$argument" in
    markdown=*) printf '{said}' >"${{argument#*=}}" ;;
    *=*) printf 'in %s' "${{argument%%=*}}" >"${{argument#*=}}" ;;
  esac
done
exit {code}
"""


def job_with(folder: Path, said: str, code: int) -> Job:
    """The job where `fleet` says this and ends so."""
    clone = folder / "clone"
    clone.mkdir()
    git(clone, "init", "--quiet", "--initial-branch", "main")
    for judge in ("policy", "facts"):
        (clone / judge).mkdir()
        (clone / judge / "__init__.py").touch()
    git(clone, "add", "policy", "facts")
    git(clone, "commit", "--quiet", "-m", "Start")
    git(clone, "update-ref", "refs/remotes/origin/main", "HEAD")
    (clone / "Makefile").write_text("setup: ;\n")
    (clone / ".venv").mkdir()
    stand_in(clone / ".venv" / "bin", "fleet", FLEET.format(said=said, code=code))
    return run_job(clone)


@pytest.mark.parametrize(
    ("code", "verdict"), [(1, "A mandatory policy of the base is violated"), (2, "The preview of a stack failed")]
)
def test_what_fails_the_job_is_reported_all_the_same(tmp_path: Path, code: int, verdict: str) -> None:
    job = job_with(tmp_path, "the report", code)
    assert job.failed_step == "Verdict"
    assert verdict in job.log
    assert job.outputs == {"code": str(code), "written": "true"}
    assert job.summary == "the report"
    assert {format_: job.report(format_) for format_ in FORMATS} == {
        "md": "the report",
        "html": "in html",
        "json": "in json",
    }


def test_no_report_at_all_is_said_in_the_summary_and_never_commented(tmp_path: Path) -> None:
    job = job_with(tmp_path, "", 2)
    assert job.failed_step == "Verdict"
    assert job.outputs == {"code": "2"}
    assert job.summary.strip()


def test_a_summary_beyond_githubs_limit_is_cut(tmp_path: Path) -> None:
    job = job_with(tmp_path, "%2000000s", 0)
    assert job.failed_step is None
    assert len(job.summary) == 1_000_000
    assert len(job.report("md")) == 2_000_000


def test_it_compares_with_what_was_merged_into_and_not_with_later_news(tmp_path: Path) -> None:
    """main goes on after the pull request was merged for the run: that is no part of the change."""
    job_with(tmp_path, "x", 0)
    clone = tmp_path / "clone"
    start = git(clone, "rev-parse", "HEAD")
    git(clone, "commit", "--quiet", "--allow-empty", "-m", "Change")
    git(clone, "switch", "--quiet", "--create", "later", start)
    git(clone, "commit", "--quiet", "--allow-empty", "-m", "News")
    git(clone, "update-ref", "refs/remotes/origin/main", "HEAD")
    git(clone, "switch", "--quiet", "main")
    stand_in(
        clone / ".venv" / "bin",
        "fleet",
        'for one in "$@"; do case "$one" in markdown=*) echo "$*" >"${one#*=}" ;; esac; done\n',
    )
    job = run_job(clone)
    assert f"--against {start} " in job.report("md")
