"""The user's login: from the environment, a file, or a stand-in gcloud; renewed before its end; never in an error."""

from __future__ import annotations

import datetime
import json
import ssl
from pathlib import Path

import pytest
import requests
from google.auth.exceptions import RefreshError, TransportError
from google.auth.transport.requests import Request

from fleet.clients.errors import LiveError
from fleet.clients.google_api import VARIABLE, UserCredentials, as_live_errors
from fleet.clients.storage import Bucket
from tests.fleet.clients.fake_google import HASTY, TOKEN, FakeGoogle
from tests.fleet.clients.programs import in_front, stand_in
from tests.support.simulators.local_server import served

GCLOUD = """
import json, os, pathlib, sys, time
counter = pathlib.Path(os.environ["COUNTER"])
count = int(counter.read_text()) + 1 if counter.exists() else 1
counter.write_text(str(count))
assert sys.argv[1:3] == ["config", "config-helper"], sys.argv
ends = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + float(os.environ["HOLDS"])))
print(json.dumps({"credential": {"access_token": f"token-{count}", "token_expiry": ends}}))
"""


@pytest.fixture(autouse=True)
def nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A user without any login."""
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.delenv("GOOGLE_APPLICATION_CREDENTIALS", raising=False)
    monkeypatch.setenv("CLOUDSDK_CONFIG", str(tmp_path / "gcloud-config"))
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file with how often gcloud was asked."""
    stand_in(tmp_path / "bin", "gcloud", GCLOUD)
    monkeypatch.setenv("PATH", in_front(tmp_path / "bin"))
    monkeypatch.setenv("COUNTER", str(tmp_path / "count"))
    monkeypatch.setenv("HOLDS", "3600")
    return tmp_path / "count"


def tokens(login: UserCredentials, times: int) -> list[str]:
    """The token of each of so many requests."""

    def one() -> str:
        headers: dict[str, str] = {}
        login.before_request(Request(), "GET", "https://storage.googleapis.com/", headers)
        return headers["authorization"].removeprefix("Bearer ")

    return [one() for _ in range(times)]


def test_gcloud_is_asked_once_while_its_token_holds(asked: Path) -> None:
    login = UserCredentials()
    assert tokens(login, 2) == ["token-1", "token-1"]
    assert asked.read_text() == "1"
    assert "token-1" not in repr(login)


def test_a_token_is_renewed_before_its_end(asked: Path) -> None:
    login = UserCredentials()
    assert tokens(login, 1) == ["token-1"]
    login.expiry = datetime.datetime.now(datetime.UTC).replace(tzinfo=None) + datetime.timedelta(minutes=3)
    assert tokens(login, 2) == ["token-2", "token-2"]
    assert asked.read_text() == "2"


def test_the_environment_goes_first(asked: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, " given ")
    assert tokens(UserCredentials(), 1) == ["given"]
    assert not asked.exists()


def service_account(google: FakeGoogle, file: Path) -> Path:
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import rsa

    key = rsa.generate_private_key(public_exponent=65537, key_size=2048).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    account = {"type": "service_account", "client_email": "a@b", "private_key": key.decode(), "private_key_id": "1"}
    file.parent.mkdir(exist_ok=True)
    file.write_text(json.dumps({**account, "project_id": "p", "token_uri": f"{google.url}/token"}))
    return file


def test_application_default_credentials_go_before_gcloud(tmp_path: Path, asked: Path, google: FakeGoogle) -> None:
    service_account(google, tmp_path / "gcloud-config" / "application_default_credentials.json")
    google.put("runs/x/run.json", b"{}")
    bucket = Bucket("results", UserCredentials(), url=google.url, retry=HASTY)
    assert bucket.folders("runs/") == ("x",)
    assert bucket.folders("runs/") == ("x",)
    assert google.tokens_handed_out == 1
    assert not asked.exists()


@pytest.mark.usefixtures("asked")
def test_a_login_in_another_terminal_is_used(tmp_path: Path, google: FakeGoogle) -> None:
    google.put("runs/x/run.json", b"{}")
    bucket = Bucket("results", UserCredentials(), url=google.url, retry=HASTY)
    with pytest.raises(LiveError) as caught:  # gcloud's token is nobody's here
        bucket.folders("runs/")
    assert caught.value.reason == "credentials"
    service_account(google, tmp_path / "gcloud-config" / "application_default_credentials.json")
    assert bucket.folders("runs/") == ("x",)


def test_a_named_file_that_is_of_no_use_is_told(
    asked: Path, google: FakeGoogle, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", "nowhere.json")
    with pytest.raises(LiveError, match=r"nowhere\.json") as caught:
        Bucket("results", UserCredentials(), url=google.url, retry=HASTY).folders("runs/")
    assert caught.value.reason == "credentials"
    assert not asked.exists()


def test_a_token_that_google_refuses_is_asked_for_again(asked: Path, google: FakeGoogle) -> None:
    google.accepted = {"token-2"}
    google.put("runs/x/run.json", b"{}")
    assert Bucket("results", UserCredentials(), url=google.url, retry=HASTY).folders("runs/") == ("x",)
    assert asked.read_text() == "2"


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("import sys; sys.exit('ERROR: (gcloud) You do not have an active account selected.')", "credentials"),
        ('print(\'{"credential": {"access_token": "the-secret"}}\')', "credentials"),
        ("print('the-secret')", "credentials"),
        ("import sys; sys.exit('gcloud crashed (TransportError): Max retries exceeded')", "unreachable"),
    ],
)
def test_a_gcloud_without_a_token_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, reason: str
) -> None:
    stand_in(tmp_path, "gcloud", script)
    monkeypatch.setenv("PATH", in_front(tmp_path))
    with pytest.raises(LiveError) as caught:
        tokens(UserCredentials(), 1)
    assert caught.value.reason == reason
    assert ("gcloud auth login" in str(caught.value)) == (reason == "credentials")
    assert "the-secret" not in str(caught.value)


def test_without_any_login_the_ways_are_named(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(LiveError, match=VARIABLE) as caught:
        tokens(UserCredentials(), 1)
    assert caught.value.reason == "missing program"
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (RefreshError("invalid_grant: Bad Request"), "credentials"),
        (RefreshError("internal_failure", retryable=True), "unreachable"),
        (TransportError(requests.ConnectionError("no route")), "unreachable"),
        (ConnectionResetError("reset"), "unreachable"),
    ],
)
def test_a_login_that_ended_is_told_apart_from_a_network_that_is_away(error: Exception, reason: str) -> None:
    with pytest.raises(LiveError) as caught, as_live_errors("asking", "nobody"):
        raise error
    assert caught.value.reason == reason


def test_a_certificate_that_is_not_trusted_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    trustme = pytest.importorskip("trustme")
    monkeypatch.setenv(VARIABLE, TOKEN)
    monkeypatch.delenv("REQUESTS_CA_BUNDLE", raising=False)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("127.0.0.1").configure_cert(context)
    with served(lambda _: None, tls=context) as port, pytest.raises(LiveError, match="REQUESTS_CA_BUNDLE") as caught:
        Bucket("results", UserCredentials(), url=f"https://127.0.0.1:{port}", retry=HASTY).folders("")
    assert caught.value.reason == "refused"
