"""The user's token: from the environment, else from a stand-in gcloud; renewed before its end; never in an error."""

from __future__ import annotations

from pathlib import Path

import pytest

from live.errors import LiveError
from live.google_http import GoogleHttp
from live.google_token import VARIABLE, GoogleToken
from live.storage import Bucket
from tests.live.fake_google import FakeGoogle
from tests.live.programs import in_front, stand_in

GCLOUD = """
import json, os, pathlib, sys, time
counter = pathlib.Path(os.environ["COUNTER"])
count = int(counter.read_text()) + 1 if counter.exists() else 1
counter.write_text(str(count))
assert sys.argv[1:3] == ["config", "config-helper"], sys.argv
ends = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + float(os.environ["HOLDS"])))
print(json.dumps({"credential": {"access_token": f"token-{count}", "token_expiry": ends}}))
"""


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file with how often gcloud was asked."""
    stand_in(tmp_path / "bin", "gcloud", GCLOUD)
    monkeypatch.setenv("PATH", in_front(tmp_path / "bin"))
    monkeypatch.setenv("COUNTER", str(tmp_path / "count"))
    monkeypatch.setenv("HOLDS", "3600")
    monkeypatch.delenv(VARIABLE, raising=False)
    return tmp_path / "count"


def test_gcloud_is_asked_once_while_its_token_holds(asked: Path) -> None:
    token = GoogleToken()
    assert [token.get(), token.get()] == ["token-1", "token-1"]
    assert asked.read_text() == "1"
    assert "token-1" not in repr(token)


def test_a_token_is_renewed_before_its_end(asked: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDS", "90")
    token = GoogleToken()
    assert [token.get(), token.get()] == ["token-1", "token-2"]
    assert asked.read_text() == "2"


def test_the_environment_goes_first(asked: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, " given ")
    assert GoogleToken().get() == "given"
    assert not asked.exists()


def test_a_token_that_google_refuses_is_asked_for_again_once(asked: Path, google: FakeGoogle) -> None:
    google.tokens = {"token-2"}
    google.put("runs/x/run.json", b"{}")
    assert Bucket("results", GoogleHttp(GoogleToken()), url=google.url).folders("runs/") == ("x",)
    assert asked.read_text() == "2"


@pytest.mark.parametrize(
    ("script", "words"),
    [
        (
            "import sys; sys.exit('ERROR: (gcloud) You do not currently have an active account selected.')",
            "no active account",
        ),
        ('print(\'{"credential": {"access_token": "the-secret"}}\')', "printed no access token"),
        ("print('the-secret')", "printed no access token"),
    ],
)
def test_a_gcloud_without_a_token_is_told_in_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, words: str
) -> None:
    stand_in(tmp_path, "gcloud", script)
    monkeypatch.setenv("PATH", in_front(tmp_path))
    monkeypatch.delenv(VARIABLE, raising=False)
    with pytest.raises(LiveError) as caught:
        GoogleToken().get()
    said = str(caught.value)
    assert "gcloud auth login" in said
    assert words in said.replace("not currently have an active", "no active")
    assert "the-secret" not in said
    assert caught.value.reason == "credentials"


def test_a_gcloud_without_a_network_asks_for_no_login(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = (
        "import sys; sys.exit('ERROR: gcloud crashed (TransportError): HTTPSConnectionPool(): Max retries exceeded')"
    )
    stand_in(tmp_path, "gcloud", script)
    monkeypatch.setenv("PATH", in_front(tmp_path))
    monkeypatch.delenv(VARIABLE, raising=False)
    with pytest.raises(LiveError, match="Check the network") as caught:
        GoogleToken().get()
    assert caught.value.reason == "unreachable"
    assert "auth login" not in str(caught.value)


def test_without_gcloud_both_ways_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv(VARIABLE, raising=False)
    with pytest.raises(LiveError, match=VARIABLE) as caught:
        GoogleToken().get()
    assert caught.value.reason == "missing program"
