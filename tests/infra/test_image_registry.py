"""How images come from Docker Hub: anonymously, or with an account whose token nobody but Artifact Registry reads."""

from __future__ import annotations

import pytest

from fleet.preview.record.recorder import Recording
from settings.derived.google_cloud_needs import required_permissions
from settings.load import parse
from settings.problems import SettingsError
from tests.support.recorded import all_of, goes_before, only, recorded_platform
from tests.support.settings import make_config, make_settings

ACCOUNT = {"dockerHubUser": "fleetpulls", "dockerHubTokenSecret": "docker-hub"}


@pytest.fixture(scope="module")
def recording() -> Recording:
    return recorded_platform(registry=ACCOUNT)


def test_without_an_account_there_is_no_credential() -> None:
    plain = recorded_platform()
    assert only(plain, ":Repository").inputs["remoteRepositoryConfig"] == {
        "dockerRepository": {"publicRepository": "DOCKER_HUB"}
    }
    assert all_of(plain, ":ServiceIdentity") == []


def test_the_token_is_named_and_never_there(recording: Recording) -> None:
    config = only(recording, ":Repository").inputs["remoteRepositoryConfig"]
    assert config["upstreamCredentials"]["usernamePasswordCredentials"] == {
        "username": "fleetpulls",
        "passwordSecretVersion": "projects/fleet-tests/secrets/docker-hub/versions/latest",
    }
    # The grant is not in force yet while the repository is made.
    assert config["disableUpstreamValidation"] is True


def test_artifact_registrys_agent_reads_that_one_secret_before_the_repository_needs_it(recording: Recording) -> None:
    grant = only(recording, ":SecretIamMember")
    number = recording.outputs["projectNumber"]
    assert grant.inputs["member"] == f"serviceAccount:service-{number}@gcp-sa-artifactregistry.iam.gserviceaccount.com"
    assert (grant.inputs["secretId"], grant.inputs["role"]) == ("docker-hub", "roles/secretmanager.secretAccessor")
    agent = only(recording, ":ServiceIdentity")
    assert agent.inputs["service"] == "artifactregistry.googleapis.com"
    assert goes_before(recording, grant.name, agent.name)
    assert goes_before(recording, only(recording, ":Repository").name, grant.name)
    # Another stack of the project may live on the same grant.
    assert grant.retain_on_delete


def test_who_brings_it_up_may_grant_it() -> None:
    assert "secretmanager.secrets.setIamPolicy" in required_permissions(make_settings(registry=ACCOUNT))


@pytest.mark.parametrize(
    ("registry", "path"),
    [
        ({**ACCOUNT, "dockerHubTokenSecret": "dckr_pat_" + "aB3" * 9}, "vllm-fleet:registry.dockerHubTokenSecret"),
        ({"dockerHubTokenSecret": "docker-hub"}, "vllm-fleet:registry.dockerHubUser"),
        ({"dockerHubUser": "fleetpulls"}, "vllm-fleet:registry.dockerHubTokenSecret"),
        ({**ACCOUNT, "dockerHubUser": "me@example.com"}, "vllm-fleet:registry.dockerHubUser"),
    ],
)
def test_a_token_in_plain_text_and_half_an_account_are_refused(registry: dict[str, str], path: str) -> None:
    with pytest.raises(SettingsError) as refused:
        parse("test", make_config(registry=registry))
    assert [problem.subject for problem in refused.value.problems] == [path]
    assert "aB3" not in str(refused.value)
