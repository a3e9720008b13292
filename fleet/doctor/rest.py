"""Requests to Google APIs without a gcloud command, with the user's token, which is never shown."""

from __future__ import annotations

import json
import os
from email.message import Message
from http.client import HTTPException
from typing import Any, Final
from urllib.error import HTTPError, URLError
from urllib.request import HTTPRedirectHandler, Request, build_opener

from facts import strict_json
from fleet.doctor import gcloud
from fleet.doctor.gcloud import NoAnswerError, plain

VARIABLE: Final = "GOOGLE_OAUTH_ACCESS_TOKEN"
"""Environment variable with an access token. Source: Terraform's and Pulumi's Google providers."""
COMPUTE: Final = "https://compute.googleapis.com/compute"
ANSWER_SECONDS: Final = 20.0
_LOGINS: Final = (("auth", "application-default", "print-access-token"), ("auth", "print-access-token"))
"""The provider uses application default credentials; gcloud's login is the fallback."""


class _NoRedirect(HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        """Does not follow redirects, which would send the token to another host."""


_open: Final = build_opener(_NoRedirect).open


def token() -> str:
    """An access token of the login that the Google Cloud provider uses. Raises NoAnswerError."""
    if given := os.environ.get(VARIABLE, "").strip():
        return given
    refused = NoAnswerError("no login", "login")
    for login in _LOGINS:
        try:
            if found := gcloud.text(*login).strip():
                return found
        except NoAnswerError as error:
            refused = error
    raise refused


def status(method: str, url: str, bearer: str, body: dict[str, Any] | None = None) -> tuple[int, Any]:
    """HTTP status and JSON body (None without a body) of a request. Raises NoAnswerError without a response."""
    code, _, said = _ask(method, url, bearer, body)
    return code, _json(said)


def post(url: str, bearer: str, body: dict[str, Any]) -> Any:
    """JSON body of the response to a POST. Raises NoAnswerError for every status but 200."""
    code, said = status("POST", url, bearer, body)
    if code == 200:
        return said
    error = said.get("error") if isinstance(said, dict) else None
    message = error.get("message") if isinstance(error, dict) else None
    reason: gcloud.Reason = "login" if code == 401 else "forbidden" if code == 403 else "refused"
    raise NoAnswerError(f"HTTP {code}: {plain(str(message or 'no reason given'))}", reason)


def header(url: str, bearer: str, name: str, *, accept: str) -> tuple[int, str | None]:
    """HTTP status and one header of a HEAD request for these media types. Raises NoAnswerError without a response."""
    code, headers, _ = _ask("HEAD", url, bearer, accept=accept)
    return code, headers.get(name)


def _ask(
    method: str, url: str, bearer: str, body: dict[str, Any] | None = None, *, accept: str = "*/*"
) -> tuple[int, Message, bytes]:
    request = Request(  # noqa: S310 - Google's addresses, written in this package
        url,
        method=method,
        data=None if body is None else json.dumps(body).encode(),
        headers={"Authorization": f"Bearer {bearer}", "Content-Type": "application/json", "Accept": accept},
    )
    try:
        with _open(request, timeout=ANSWER_SECONDS) as reply:
            return reply.status, reply.headers, reply.read()
    except HTTPError as error:
        with error:
            return error.code, error.headers, error.read()
    except TimeoutError:
        raise NoAnswerError(f"no answer within {ANSWER_SECONDS:.0f} s", "timeout") from None
    except (URLError, HTTPException, OSError) as error:
        raise NoAnswerError(f"no answer: {plain(str(getattr(error, 'reason', error)))}", "unreachable") from None


def _json(raw: bytes) -> Any:
    try:
        return strict_json.loads(raw)
    except ValueError:
        return None
