"""A secret pasted in a wrong place, as a value or as a key, is in no error of the package."""

from __future__ import annotations

from typing import Any

import pytest
from pulumi.errors import InputPropertiesError, InputPropertyError

from facades.host import Host

TOKENS = {
    "hugging-face": "hf_" + "aB3dE6gH9jK2mN5pQ8sT1vW4yZ7cF0hJ3l",
    "github": "ghp_" + "aB3dE6gH9jK2mN5pQ8sT1vW4yZ7cF0hJ3lMn",
    "slack": "xoxb-" + "123456789012-123456789012-aB3dE6gH9jK2mN5pQ8sT1vW4",
    "google": "AIza" + "aB3dE6gH9jK2mN5pQ8sT1vW4yZ7cF0hJ3lM",
    "jwt": "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.aB3dE6gH9jK2mN5pQ8sT",
    "private-key": "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSj\n-----END PRIVATE KEY-----\n",
    "named": "Correct horse battery!",
}
GIVEN: dict[str, Any] = {
    "project": "my-project",
    "zones": ["europe-west4-b"],
    "capacity": "ladder",
    "machine": "a4-highgpu-8g",
    "replicas": 2,
}
PLACES: dict[str, Any] = {
    "capacity": lambda token: {"capacity": token},
    "long": lambda token: {"capacity": f"{'x' * 70}{token}"},
    "list": lambda token: {"capacity": [token]},
    "machine": lambda token: {"machine": token},
    "zones": lambda token: {"zones": [token]},
    "zone text": lambda token: {"zones": token},
    "project": lambda token: {"project": token},
    "namespace": lambda token: {"namespace": token},
    "model": lambda token: {"model": token},
    "model config": lambda token: {"modelConfig": token},
    "revision": lambda token: {"revision": token},
    "profile": lambda token: {"profile": token},
    "replicas": lambda token: {"replicas": token},
    "reservation": lambda token: {"capacity": "spot", "reservation": token},
    "release channel": lambda token: {"releaseChannel": token},
    "labels": lambda token: {"labels": {"team": token}},
    "label keys": lambda token: {"labels": {token: "team"}},
    "engine": lambda token: {"engine": {"maxModelLen": token}},
    "engine keys": lambda token: {"engine": {token: 1}},
    "flag": lambda token: {"engine": {"extraArgs": [f"--api-key={token}", "--no-such-flag"]}},
    "input": lambda token: {token: "x"},
}


@pytest.fixture(scope="module")
def host() -> Host:
    return Host()


@pytest.mark.parametrize("place", PLACES)
def test_no_error_has_a_secret(host: Host, place: str, capsys: pytest.CaptureFixture[str]) -> None:
    for kind, token in TOKENS.items():
        wrong = PLACES[place](token)
        if kind == "named":
            wrong = {"apiKey": token, **wrong}
        with pytest.raises(Exception) as refused:  # noqa: PT011 - any error whatever
            host.construct("fleet", "vllm-fleet:index:VllmFleet", {**GIVEN, **wrong})
        error: Any = refused.value
        told = [str(error), repr(vars(error)), str(getattr(error, "inner", "")), *capsys.readouterr()]
        for part in {token, token.strip(), *token.split("\n")} - {
            "",
            "-----BEGIN PRIVATE KEY-----",
            "-----END PRIVATE KEY-----",
        }:
            assert not any(part[:30] in text for text in told), (kind, told)
        assert isinstance(error, InputPropertyError | InputPropertiesError), (kind, error)
