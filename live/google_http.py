"""Requests to Google's JSON APIs with the user's own token: repeated while it is worth it, refused in words."""

from __future__ import annotations

import contextlib
import http.client
import json
import ssl
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from typing import Any, Final

from live.errors import LiveError
from live.google_token import GoogleToken

ATTEMPTS: Final = 5
PAUSE_SECONDS: Final = 1.0
"""Before the second attempt; doubles after every further one: 15 s in all. Assumed."""
ANSWER_SECONDS: Final = 60.0
_BUSY: Final = frozenset({408, 429, 500, 502, 503, 504})
"""Statuses that Google asks to repeat. Source: Cloud Storage docs, retry strategy."""


class GoogleHttp:
    """Requests of one user. Safe to use from many threads."""

    def __init__(self, token: GoogleToken, *, pause_seconds: float = PAUSE_SECONDS) -> None:
        self._token = token
        self.pause_seconds = pause_seconds

    def json(self, what: str, url: str, *, may: str, form: Mapping[str, str] | None = None) -> Any:
        """What was answered. `what` says what this is for the error, `may` which role allows it; `form` makes it a POST."""
        text = self.content(what, url, may=may, form=form)
        try:
            return json.loads(text)
        except ValueError:
            raise LiveError(f"{what}: the answer is not JSON: {text[:100]!r}") from None

    def content(self, what: str, url: str, *, may: str, form: Mapping[str, str] | None = None) -> bytes:
        """A whole answer, asked for again where it breaks off. Raises LiveError."""
        pause, problem = self.pause_seconds, ""
        for attempt in range(1, ATTEMPTS + 1):
            with self.open(what, url, may=may, form=form) as response:
                try:
                    return response.read()
                except (OSError, http.client.HTTPException) as error:
                    problem = str(error) or type(error).__name__
            if attempt < ATTEMPTS:
                time.sleep(pause)
                pause *= 2
        raise LiveError(f"{what}: the answer broke off {ATTEMPTS} times: {problem}", reason="unreachable")

    @contextlib.contextmanager
    def open(
        self,
        what: str,
        url: str,
        *,
        may: str,
        headers: Mapping[str, str] | None = None,
        form: Mapping[str, str] | None = None,
    ) -> Iterator[http.client.HTTPResponse]:
        """An answer to read from. Raises LiveError with reason forbidden, credentials, not found or unreachable.

        What goes wrong while the answer is read is the caller's: OSError or http.client.HTTPException.
        """
        data = urllib.parse.urlencode(form).encode() if form is not None else None
        response = self._answer(what, url, may, dict(headers or {}), data)
        try:
            yield response
        finally:
            response.close()

    def _answer(
        self, what: str, url: str, may: str, headers: dict[str, str], data: bytes | None
    ) -> http.client.HTTPResponse:
        pause, renewed = self.pause_seconds, False
        for attempt in range(1, ATTEMPTS + 1):
            token = self._token.get()
            request = urllib.request.Request(  # noqa: S310 - https, or whatever endpoint the user set for gcloud
                url, data=data, headers=headers
            )
            # Not to wherever an answer may lead.
            request.add_unredirected_header("Authorization", f"Bearer {token}")
            try:
                answer: http.client.HTTPResponse = urllib.request.urlopen(request, timeout=ANSWER_SECONDS)  # noqa: S310
                return answer
            except urllib.error.HTTPError as error:
                with error:
                    said = _message(error)
                if error.code == 401 and not renewed and self._token.refused(token):
                    renewed = True
                    continue
                if error.code not in _BUSY:
                    raise _refusal(what, error.code, said, may) from None
                problem = f"HTTP {error.code}: {said}"
            except (OSError, http.client.HTTPException) as error:
                reason = getattr(error, "reason", error)
                if isinstance(reason, ssl.SSLCertVerificationError):
                    raise _not_trusted(what, url, reason) from None
                problem = str(reason) or type(error).__name__
            if attempt == ATTEMPTS:
                break
            time.sleep(pause)
            pause *= 2
        host = urllib.parse.urlsplit(url).netloc
        raise LiveError(f"{what}: {host} gave no answer in {ATTEMPTS} attempts: {problem}", reason="unreachable")


def _not_trusted(what: str, url: str, error: ssl.SSLCertVerificationError) -> LiveError:
    return LiveError(
        f"{what}: this Python does not trust the certificate of {urllib.parse.urlsplit(url).netloc}: {error.verify_message}. Set "
        "SSL_CERT_FILE to a file with the authorities to trust, your proxy's among them; Python from python.org has none on macOS until "
        "its `Install Certificates.command` was run",
        reason="refused",
    )


def _refusal(what: str, status: int, said: str, may: str) -> LiveError:
    if status == 401:
        return LiveError(
            f"{what}: Google does not accept the access token: {said}. Run `gcloud auth login`, or set GOOGLE_OAUTH_ACCESS_TOKEN anew",
            reason="credentials",
        )
    if status == 403:
        return LiveError(f"{what}: this user may not: {said}. {may} allows it", reason="forbidden")
    if status == 404:
        return LiveError(f"{what}: not there: {said}", reason="not found")
    return LiveError(f"{what}: HTTP {status}: {said}", reason="refused")


def _message(error: urllib.error.HTTPError) -> str:
    """The sentence of Google's error document, else its beginning."""
    try:
        text = error.read(20_000).decode(errors="replace")
    except (OSError, http.client.HTTPException):
        return error.reason or "no reason given"
    with contextlib.suppress(ValueError, KeyError, TypeError):
        found = json.loads(text)
        inner = found["error"]
        return str(inner["message"] if isinstance(inner, dict) else inner)[:300]
    return " ".join(text.split())[:300] or error.reason or "no reason given"
