"""What holds for every workflow, beside what actionlint and zizmor check (`make workflows`)."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml

from facts.names import stack_names
from fleet.doctor import code_owners
from fleet.preview.judging_files import judging_files
from tests.workflows.steps import ACTION, ATTEMPTS, ROOT, UP_MINUTES, WORKFLOWS, read, workflow, workflows

FILES = [*sorted(WORKFLOWS.glob("*.yml")), ACTION]
SAME_REPOSITORY = "github.event.pull_request.head.repo.full_name == github.repository"
ALL = workflows()
UPDATES = {f"up-stack.{name}" for name in ATTEMPTS}
"""Jobs that change a stack."""


def jobs() -> Iterator[tuple[str, dict[str, Any]]]:
    for name, one in ALL.items():
        for job, body in one["jobs"].items():
            yield f"{name}.{job}", body


def uses(job: dict[str, Any]) -> list[str]:
    return [step["uses"] for step in job.get("steps", []) if "uses" in step]


def test_every_action_is_pinned_by_one_commit_everywhere_and_says_its_version() -> None:
    pins: dict[str, set[str]] = {}
    for file in FILES:
        for used in re.findall(r"^\s*(?:- )?uses: (?!\./)(.*)$", file.read_text(), re.MULTILINE):
            assert re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", used), (file, used)
            action, _, pin = used.partition("@")
            pins.setdefault(action, set()).add(pin)
    assert len(pins) > 5
    assert {action: len(versions) for action, versions in pins.items()} == dict.fromkeys(pins, 1)


def test_no_workflow_reads_a_secret() -> None:
    for file in FILES:
        text = file.read_text()
        assert "secrets." not in text, file
        assert "secrets:" not in text, file


def test_rights_are_given_job_by_job() -> None:
    for name, one in ALL.items():
        assert one["permissions"] == {}, name
    for name, job in jobs():
        assert set(job["permissions"].values()) <= {"read", "write"}, name


def test_only_named_jobs_may_write_and_each_one_thing() -> None:
    writing = {name: {k for k, v in job["permissions"].items() if v == "write"} for name, job in jobs()}
    assert {name: rights for name, rights in writing.items() if rights} == {
        "preview.comment": {"pull-requests"},
        "preview.cloud": {"id-token"},
        "drift.check": {"id-token"},
        "drift.report": {"issues"},
        "up.stack": {"id-token"},
        "up-stack.preview": {"id-token"},
        **{f"up-stack.{name}": {"id-token"} for name in ATTEMPTS},
        "release.attest": {"id-token", "attestations"},
        "release.github": {"contents"},
        "release.pypi": {"id-token"},
    }


@pytest.mark.parametrize(
    ("name", "also"),
    [
        ("preview.comment", []),
        ("drift.report", []),
        ("release.attest", ["actions/attest-build-provenance"]),
        ("release.github", []),
        ("release.pypi", ["pypa/gh-action-pypi-publish"]),
    ],
)
def test_a_job_whose_token_writes_runs_no_code_of_the_repository(name: str, also: list[str]) -> None:
    job = dict(jobs())[name]
    assert [one.split("@")[0] for one in uses(job)] == ["actions/download-artifact", *also]
    for step in job["steps"]:
        assert not re.search(r"(scripts|\.github|\.venv|make)\b", step.get("run", ""))


def test_no_expression_reaches_a_shell() -> None:
    """A branch name or title in `${{ }}` of a script would be run as shell."""
    for name, job in jobs():
        for step in job.get("steps", []):
            assert "${{" not in step.get("run", ""), name
    for step in read(ACTION)["runs"]["steps"]:
        assert "${{" not in step.get("run", "")


def test_every_job_ends_by_itself() -> None:
    for name, job in jobs():
        if "uses" not in job:
            assert 0 < job["timeout-minutes"] <= (360 if name in UPDATES else 120), name


def test_an_update_ends_by_itself_before_github_ends_it() -> None:
    """GitHub's end leaves the state locked. Assumed: ten minutes to install before it, fifteen to end in (--kill-after)."""
    for name in ATTEMPTS:
        assert workflow("up-stack")["jobs"][name]["timeout-minutes"] >= UP_MINUTES + 10 + 15


def test_a_token_of_pulumi_cloud_outlasts_its_job() -> None:
    default = read(ACTION)["inputs"]["token-seconds"]["default"]
    for name, job in jobs():
        for step in job.get("steps", []):
            if step.get("uses") == "./.github/actions/cloud":
                assert int(step["with"].get("token-seconds", default)) >= job["timeout-minutes"] * 60, name


def test_an_attempt_goes_on_where_the_one_before_it_ran_out_of_time() -> None:
    all_of_it = workflow("up-stack")["jobs"]
    assert [name for name in all_of_it if f"up-stack.{name}" in UPDATES] == ATTEMPTS
    first = all_of_it["up"]
    for name in ATTEMPTS:
        assert {**all_of_it[name], **{key: first[key] for key in ("name", "needs", "if")}} == first
    for before, name in pairwise([*ATTEMPTS, "ended"]):
        assert all_of_it[name]["needs"] == before
        assert all_of_it[name]["if"] == f"${{{{ needs.{before}.outputs.result == 'interrupted' }}}}"


def test_the_offline_preview_needs_nothing_that_a_fork_lacks() -> None:
    job = workflow("preview")["jobs"]["offline"]
    assert job["permissions"] == {"contents": "read"}
    assert "if" not in job
    assert "environment" not in job
    assert "vars." not in yaml.safe_dump(job)
    assert workflow("preview")["on"] == {"pull_request": None}


def test_forks_get_neither_comment_nor_cloud() -> None:
    for name, job in (("preview", "comment"), ("preview", "cloud")):
        condition = " ".join(workflow(name)["jobs"][job]["if"].split())
        assert SAME_REPOSITORY in condition
        assert "||" not in condition


def test_cloud_credentials_come_with_an_environment_only() -> None:
    for name, job in jobs():
        if "./.github/actions/cloud" in uses(job):
            environment = job["environment"]
            environment = environment if isinstance(environment, str) else environment["name"]
            expected = {"preview.cloud": "preview", **dict.fromkeys(UPDATES, "${{ inputs.stack }}")}.get(name, "read")
            assert environment == expected, name


def test_an_update_comes_from_main_alone_and_is_never_cancelled() -> None:
    up = workflow("up")
    assert up["on"]["push"]["branches"] == ["main"]
    assert "github.ref == 'refs/heads/main'" in up["jobs"]["stack"]["if"]
    assert list(workflow("up-stack")["on"]) == ["workflow_call"]
    for name in ATTEMPTS:
        assert workflow("up-stack")["jobs"][name]["concurrency"] == {
            "group": "up-${{ inputs.stack }}",
            "cancel-in-progress": False,
        }


def test_nothing_but_an_approved_job_runs_pulumi_up() -> None:
    steps = [(name, step) for name, job in jobs() for step in job.get("steps", [])]
    assert {name for name, step in steps if "pulumi_up.sh" in step.get("run", "")} == UPDATES
    assert not any(
        step.get("with", {}).get("command") == "up" or "pulumi up" in step.get("run", "") for _, step in steps
    )


def test_every_real_preview_and_update_asks_the_policy_pack() -> None:
    for name, job in jobs():
        for step in job.get("steps", []):
            if "command" in step.get("with", {}):
                assert step["with"]["policyPacks"] == "out/base/policy", name
                assert step["with"]["policyPackConfigs"] == "${{ steps.cloud.outputs.policy-config }}", name
            if "pulumi_" in step.get("run", ""):  # the scripts name the pack themselves
                assert step["env"]["POLICY_CONFIG"] == "${{ steps.cloud.outputs.policy-config }}", name


def test_a_pull_request_with_credentials_is_judged_by_its_base() -> None:
    steps = workflow("preview")["jobs"]["cloud"]["steps"]
    (base,) = (one["with"] for one in steps if "ref" in one.get("with", {}))
    (cloud,) = (one["with"] for one in steps if one.get("uses") == "./.github/actions/cloud")
    assert base["ref"] == "${{ github.event.pull_request.base.sha }}"
    assert base["path"] == cloud["judge"] == "out/base"


def test_an_offline_preview_is_judged_by_its_base() -> None:
    (run,) = (one["run"] for one in workflow("preview")["jobs"]["offline"]["steps"] if one.get("id") == "preview")
    assert '--against "$base"' in run
    assert "--no-policy" not in run


def test_the_template_of_code_owners_covers_what_judges() -> None:
    text = (ROOT / ".github" / "CODEOWNERS.template").read_text()
    assert list(code_owners.faults(code_owners.read(text.replace("YOUR-ORG", "acme")), judging_files(ROOT))) == []
    assert all(line.wrong for line in code_owners.read(text))


def test_up_can_be_asked_for_every_stack_that_has_a_file() -> None:
    options = workflow("up")["on"]["workflow_dispatch"]["inputs"]["stack"]["options"]
    assert sorted(options) == list(stack_names(ROOT))
    guide = (ROOT / "docs" / "pull-requests.md").read_text(encoding="utf-8")
    assert set(stack_names(ROOT)) == set(
        re.findall(r"`([\w-]+)`", next(line for line in guide.splitlines() if "of that name |" in line))
    ) - {"up", "main"}


def test_the_cli_is_the_version_of_the_sdk_in_program_and_pack() -> None:
    version = (ROOT / ".github" / "pulumi.version").read_text().strip()
    assert f"pulumi=={version}" in (ROOT / "requirements.txt").read_text().splitlines()
    assert f"pulumi=={version}" in (ROOT / "policy" / "requirements.txt").read_text().splitlines()


@pytest.mark.skipif(
    not os.environ.get("CI") and shutil.which("shellcheck") is None, reason="shellcheck is not installed"
)
@pytest.mark.parametrize("script", sorted(ACTION.parent.glob("*.sh")), ids=lambda p: p.name)
def test_shellcheck_finds_nothing_in_a_script(script: Path) -> None:
    done = subprocess.run(["shellcheck", str(script)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
