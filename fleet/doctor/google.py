"""Google's APIs about a project, read-only, through one session with the user's login."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from google.api_core.exceptions import from_http_response
from google.auth.transport.requests import AuthorizedSession, Request

from fleet.clients.errors import LiveError
from fleet.clients.google_api import UserCredentials, as_live_errors

COMPUTE: Final = "https://compute.googleapis.com/compute/v1"
ANSWER_SECONDS: Final = 20.0
_MAY: Final = "a role that may read it, such as roles/viewer"


class Google:
    """One session. Its errors are LiveErrors in Google's words."""

    def __init__(self) -> None:
        """Raises LiveError without a login."""
        login = UserCredentials()
        with as_live_errors("logging in to Google Cloud", _MAY):
            # Once, before requests in parallel.
            login.refresh(Request())
        self._session = AuthorizedSession(login)

    def get(self, url: str, **query: Any) -> Any:
        """JSON of the answer. Raises LiveError."""
        return self._json("GET", url, params=query)

    def find(self, url: str) -> Any:
        """The same; None for what does not exist."""
        try:
            return self.get(url)
        except LiveError as error:
            if error.reason == "not found":
                return None
            raise

    def post(self, url: str, body: Mapping[str, Any]) -> Any:
        """JSON of the answer to a question that is a POST. Raises LiveError."""
        return self._json("POST", url, json=dict(body))

    def header(self, url: str, name: str, *, accept: str) -> str | None:
        """A header of the answer for these media types; None for what does not exist. Raises LiveError."""
        answer = self._ask("HEAD", url, headers={"Accept": accept})
        if answer.status_code == 404:
            return None
        self._refuse(url, answer)
        found: str | None = answer.headers.get(name)
        return found

    def _json(self, method: str, url: str, **how: Any) -> Any:
        answer = self._ask(method, url, **how)
        self._refuse(url, answer)
        try:
            return answer.json()
        except ValueError:
            raise LiveError(f"{url}: the answer is not JSON", reason="refused") from None

    def _ask(self, method: str, url: str, **how: Any) -> Any:
        with as_live_errors(_host(url), _MAY):
            # A redirect would send the token to another host.
            return self._session.request(method, url, timeout=ANSWER_SECONDS, allow_redirects=False, **how)

    @staticmethod
    def _refuse(url: str, answer: Any) -> None:
        if answer.status_code != 200:
            with as_live_errors(_host(url), _MAY):
                raise from_http_response(answer)


def _host(url: str) -> str:
    return url.partition("://")[2].partition("/")[0]
