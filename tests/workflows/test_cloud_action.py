"""The action that gives a job its credentials: order of steps, names, and the exchange with Pulumi Cloud."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

from fleet.preview.policy_config import CONFIG_FOLDER
from tests.workflows.steps import ACTION, ROOT, needs_jq, outputs, read, run, stand_in

EXCHANGE = ACTION.parent / "pulumi_cloud_token.sh"
CURL = """
printf '%s\\n' "$*" >>calls
if [[ "$*" == *idtoken* ]]; then echo '{"value": "identity-of-the-job"}'; else cat >request; cat answer; test -s answer || exit 22; fi
"""


def steps() -> list[dict[str, object]]:
    found = read(ACTION)["runs"]["steps"]
    assert isinstance(found, list)
    return found


def test_packages_are_installed_before_there_are_credentials() -> None:
    titles = [str(one.get("name") or one.get("uses")).split("@")[0] for one in steps()]
    assert titles.index("Packages of the program and of the policy pack") < titles.index("google-github-actions/auth")


@pytest.mark.parametrize("folder", [".", "policy"])
def test_what_is_installed_beside_credentials_is_named_by_hash(folder: str) -> None:
    (install,) = [
        str(one["run"]) for one in steps() if one.get("name") == "Packages of the program and of the policy pack"
    ]
    lock = (Path(folder) / "requirements.lock").as_posix()
    assert f"--require-hashes -r {lock}\n" in install.replace(
        '"$JUDGE/policy/requirements.lock"', "policy/requirements.lock"
    )
    assert install.count("pip install") == install.count("--require-hashes")
    entries = re.findall(
        r"^(\S+?)==(\S+)[^\n]*\n((?: {4}--hash=sha256:[0-9a-f]{64}.*\n)+)", (ROOT / lock).read_text(), re.MULTILINE
    )
    locked = {name: version for name, version, _ in entries}
    wanted = re.findall(r"^(\S+)==(\S+)$", (ROOT / folder / "requirements.txt").read_text(), re.MULTILINE)
    assert {name.lower(): locked.get(name.lower()) for name, _ in wanted} == {
        name.lower(): version for name, version in wanted
    }
    assert len(locked) > len(wanted)


def names(folder: Path, judge: str = ".") -> dict[str, str]:
    script = str(steps()[0]["run"])
    environment = {"STACK": "dev", "ORGANIZATION": "acme", "JUDGE": judge, "GITHUB_OUTPUT": "output"}
    assert run(script, cwd=folder, environment=environment).returncode == 0
    return outputs(folder / "output")


def test_a_stack_has_its_full_name_and_the_policy_config_that_the_offline_preview_reads(tmp_path: Path) -> None:
    assert names(tmp_path) == {"stack-name": "acme/vllm-fleet/dev"}
    (tmp_path / CONFIG_FOLDER).mkdir(parents=True)
    (tmp_path / CONFIG_FOLDER / "dev.json").write_text("{}")
    assert names(tmp_path)["policy-config"] == f"./{CONFIG_FOLDER}/dev.json"


def test_a_pull_request_brings_no_limits_of_its_own(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "out" / "base"):
        (folder / CONFIG_FOLDER).mkdir(parents=True)
    (tmp_path / CONFIG_FOLDER / "dev.json").write_text("{}")
    assert "policy-config" not in names(tmp_path, "out/base")
    (tmp_path / "out" / "base" / CONFIG_FOLDER / "dev.json").write_text("{}")
    (tmp_path / "output").unlink()
    assert names(tmp_path, "out/base")["policy-config"] == f"out/base/{CONFIG_FOLDER}/dev.json"


def exchange(folder: Path, answer: str) -> subprocess.CompletedProcess[str]:
    stand_in(folder / "bin", "curl", CURL)
    (folder / "answer").write_text(answer)
    environment = {
        "BACKEND": "https://api.pulumi.com",
        "ORGANIZATION": "acme",
        "SECONDS_VALID": "21600",
        "ACTIONS_ID_TOKEN_REQUEST_URL": "https://github/idtoken?version=2",
        "ACTIONS_ID_TOKEN_REQUEST_TOKEN": "token-of-the-runner",
        "GITHUB_ENV": "env",
    }
    return run(str(EXCHANGE), cwd=folder, environment=environment, path=folder / "bin")


def test_google_credentials_are_renewed_by_whoever_uses_them() -> None:
    """A token asked for here would end after an hour. The file that the action writes names GitHub's address for identities, which
    answers as long as the job runs. Source: google-github-actions/auth, issues 267 and 474.
    """
    (auth,) = (one for one in steps() if str(one.get("uses")).startswith("google-github-actions/auth@"))
    assert set(auth["with"]) == {"workload_identity_provider", "service_account"}  # type: ignore[call-overload]


@needs_jq
def test_the_jobs_identity_is_exchanged_for_a_token_of_the_organization_and_none_is_printed_but_to_be_masked(
    tmp_path: Path,
) -> None:
    done = exchange(tmp_path, '{"access_token": "pul-123"}')
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "env").read_text() == "PULUMI_ACCESS_TOKEN=pul-123\n"
    request = json.loads((tmp_path / "request").read_text())
    assert request["audience"] == "urn:pulumi:org:acme"
    assert request["subject_token"] == "identity-of-the-job"
    assert request["requested_token_type"] == "urn:pulumi:token-type:access_token:organization"
    assert request["expiration"] == 21_600
    calls = (tmp_path / "calls").read_text()
    identity, token = calls.splitlines()
    assert identity.endswith("https://github/idtoken?version=2")
    assert "--data-urlencode audience=urn:pulumi:org:acme" in identity
    assert token.endswith("https://api.pulumi.com/api/oauth/token")
    assert done.stdout.splitlines() == ["::add-mask::identity-of-the-job", "::add-mask::pul-123"]
    for secret in ("identity-of-the-job", "pul-123", "token-of-the-runner"):
        assert secret not in calls


@needs_jq
@pytest.mark.parametrize("answer", ["{}", '{"access_token": ""}', ""])
def test_a_refusal_says_where_to_look(tmp_path: Path, answer: str) -> None:
    done = exchange(tmp_path, answer)
    assert done.returncode == 1
    assert done.stdout.splitlines()[-1].startswith("::error")
    assert not (tmp_path / "env").exists()
