"""gcloud as a process: what it is told, and every way in which it does not answer."""

from __future__ import annotations

import http.server
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from fleet.doctor import gcloud, rest
from fleet.doctor.gcloud import NoAnswerError
from tests.fleet.doctor.replies import FakeGcloud

# As gcloud 528 prints them; the account, project and service are made up.
NO_ACCOUNT = """ERROR: (gcloud.services.list) You do not currently have an active account selected.
Please run:

  $ gcloud auth login
"""
OLD_LOGIN = """ERROR: (gcloud.services.list) There was a problem refreshing your current auth tokens: Reauthentication failed. cannot prompt
during non-interactive execution."""
OFFLINE = """ERROR: (gcloud.services.list) There was a problem refreshing your current auth tokens: HTTPSConnectionPool(host=x, port=443):
Max retries exceeded with url: /token"""
API_OFF = """ERROR: (gcloud.services.list) PERMISSION_DENIED: Cloud Quotas API has not been used in project 123 before or it is disabled."""
FORBIDDEN = """ERROR: (gcloud.services.list) [me@example.com] does not have permission to access projects instance [p]:
The caller does not have permission."""
NO_COMMAND = "ERROR: (gcloud) Invalid choice: quotas."
NO_COMPONENT = """You do not currently have this command group installed.  Using it requires the installation of components: [beta]
ERROR: (gcloud) This prompt could not be answered because you are not in an interactive session."""


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeGcloud:
    found = FakeGcloud(tmp_path / "bin")
    monkeypatch.setenv("PATH", found.path)
    monkeypatch.delenv("GOOGLE_OAUTH_ACCESS_TOKEN", raising=False)
    return found


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (NO_ACCOUNT, "login"),
        (OLD_LOGIN, "login"),
        (OFFLINE, "unreachable"),
        (API_OFF, "API off"),
        (FORBIDDEN, "forbidden"),
        (NO_COMMAND, "no such command"),
        (NO_COMPONENT, "no such command"),
        ("ERROR: (gcloud.x) NOT_FOUND: Quota X not found", "not found"),
        ("something else", "refused"),
        ("", "refused"),
    ],
)
def test_a_failure_is_told_by_its_reason(fake: FakeGcloud, said: str, reason: str) -> None:
    fake.fails("services list", said)
    with pytest.raises(NoAnswerError) as caught:
        gcloud.ask("services", "list")
    assert caught.value.reason == reason
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", ["", "not JSON", "{", "[" * 200_000])
def test_what_is_not_json_is_no_answer(fake: FakeGcloud, text: str) -> None:
    fake.says("services list", text)
    with pytest.raises(NoAnswerError) as caught:
        gcloud.ask("services", "list")
    assert caught.value.reason == "unreadable"


def test_a_gcloud_that_hangs_is_given_up(fake: FakeGcloud) -> None:
    fake.does("services list", "exec sleep 300")
    begun = time.monotonic()
    with pytest.raises(NoAnswerError) as caught:
        gcloud.ask("services", "list", seconds=0.1)
    assert caught.value.reason == "timeout"
    assert time.monotonic() - begun < 60


@pytest.mark.slow
def test_a_gcloud_that_hangs_is_ended_with_what_it_started(fake: FakeGcloud, tmp_path: Path) -> None:
    fake.does("services list", f"sleep 300 & echo $! > {tmp_path}/child; wait")
    with pytest.raises(NoAnswerError):
        gcloud.ask("services", "list", seconds=10)
    state = Path(f"/proc/{(tmp_path / 'child').read_text().strip()}/stat")
    ended = time.monotonic() + 30  # a signal is not yet a death
    while state.exists() and state.read_text().split()[2] != "Z" and time.monotonic() < ended:
        time.sleep(0.05)
    assert time.monotonic() < ended


def test_gcloud_is_told_to_install_and_enable_nothing(fake: FakeGcloud, monkeypatch: pytest.MonkeyPatch) -> None:
    # Disabled prompts would answer "install this component?" with yes.
    monkeypatch.setenv("CLOUDSDK_CORE_DISABLE_PROMPTS", "1")
    gcloud.ask("services", "list", "--enabled")
    assert fake.asked == ["services list | false false | services list --enabled --format=json"]


def test_what_gcloud_says_is_shown_without_secrets_and_terminal_codes(fake: FakeGcloud) -> None:
    fake.fails("services list", "token ya29.a-secret-of-somebody-that-leaked \x1b[31mred\x1b[0m \x07 end")
    with pytest.raises(NoAnswerError) as caught:
        gcloud.ask("services", "list")
    assert str(caught.value) == "token [secret] red end"


def test_the_token_is_the_providers_else_gclouds_own(fake: FakeGcloud, monkeypatch: pytest.MonkeyPatch) -> None:
    assert rest.token().startswith("ya29.")
    fake.fails("auth application-default print-access-token", "Your default credentials were not found.")
    fake.says("auth print-access-token", "of-gcloud\n")
    assert rest.token() == "of-gcloud"
    monkeypatch.setenv("GOOGLE_OAUTH_ACCESS_TOKEN", "of-the-environment")
    assert rest.token() == "of-the-environment"


class _Server(http.server.BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self._reply(200 if self.headers["Authorization"] == "Bearer a-token" else 401, body)

    def do_GET(self) -> None:
        self._reply({"/moved": 302}.get(self.path, 429), b"not JSON", {"Location": "http://127.0.0.1:9/elsewhere"})

    def _reply(self, code: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(code)
        for key, value in {**(headers or {}), "Content-Length": str(len(body))}.items():
            self.send_header(key, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Not a word."""


@pytest.fixture
def url() -> Iterator[str]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Server)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_request_carries_the_token_and_a_redirect_is_not_followed(url: str) -> None:
    assert rest.status("POST", f"{url}/x", "a-token", {"permissions": ["p"]}) == (200, {"permissions": ["p"]})
    assert rest.status("POST", f"{url}/x", "another", {})[0] == 401
    assert rest.status("GET", f"{url}/moved", "a-token") == (302, None)
    assert rest.status("GET", f"{url}/x", "a-token") == (429, None)


def test_no_network_is_no_answer() -> None:
    with pytest.raises(NoAnswerError) as caught:
        rest.status("GET", "http://127.0.0.1:9/x", "a-token")
    assert caught.value.reason == "unreachable"
    assert "a-token" not in str(caught.value)
