"""Google APIs with the user's login: token, retries, and errors with a fix."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import re
import subprocess
import warnings
from collections.abc import Iterator
from datetime import datetime
from typing import Any, Final

import google.auth
import requests
from google.api_core.exceptions import (
    GoogleAPICallError,
    GoogleAPIError,
    RetryError,
    from_http_response,
    from_http_status,
)
from google.auth import environment_vars
from google.auth.credentials import Credentials
from google.auth.exceptions import DefaultCredentialsError, GoogleAuthError, TransportError
from google.cloud.storage.exceptions import InvalidResponse
from google.cloud.storage.retry import DEFAULT_RETRY
from google.oauth2 import credentials as oauth2

from fleet.clients.errors import LiveError
from fleet.clients.kubectl_errors import GCLOUD, OFFLINE

VARIABLE: Final = "GOOGLE_OAUTH_ACCESS_TOKEN"
"""Environment variable with an access token. Source: Terraform's and Pulumi's Google providers."""
RETRY: Final = DEFAULT_RETRY.with_timeout(20.0)
"""Google's list of retryable errors, for 20 s instead of 120. Assumed: longer waits are shown with their reason, see
fleet/jobs/watching.py."""
ANSWER_SECONDS: Final = 60.0
GCLOUD_SECONDS: Final = 60.0
"""Timeout. Assumed: gcloud answers in a second or two, plus a request for a token."""
LOGIN: Final = "gcloud auth login --update-adc"
"""Renews gcloud's login and the application default credentials."""
_SCOPES: Final = ("https://www.googleapis.com/auth/cloud-platform",)
_GCLOUD: Final = ("gcloud", "config", "config-helper", "--format=json", "--min-expiry=5m")
"""Also used by gke-gcloud-auth-plugin: unlike `gcloud auth print-access-token`, it returns the token's expiry. google-auth renews
a token 3:45 min before its end."""
_METHOD_AND_URL: Final = re.compile(r"^[A-Z]+ \S+: ")
"""google-api-core's prefix of an API's message."""


class UserCredentials(Credentials):
    """The user's login, read for every token: a login in another terminal is picked up."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._login: Credentials | None = None

    def refresh(self, request: Any) -> None:
        """Get a token. Raises LiveError or GoogleAuthError without a login or network."""
        login = _login()
        if not login.valid:
            login.refresh(request)
        self._login, self.token, self.expiry = login, login.token, login.expiry

    def apply(self, headers: Any, token: str | None = None) -> None:
        """Add the token, and the login's quota project if any, to a request's headers."""
        if self._login is not None:
            self._login.apply(headers, token)


def _login() -> Credentials:
    """The token from the environment, else application default credentials, else gcloud's login."""
    if given := os.environ.get(VARIABLE, "").strip():
        return oauth2.Credentials(given)
    # Detecting a Google machine takes 12 s elsewhere. On a Google machine, gcloud knows its account.
    os.environ.setdefault(environment_vars.NO_GCE_CHECK, "true")
    # Suppress its warnings about projects and quotas.
    logging.getLogger("google.auth").setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            found, _ = google.auth.default(scopes=_SCOPES)
        except DefaultCredentialsError:
            # A named but unusable file is an error: falling back to other credentials would surprise.
            if os.environ.get(environment_vars.CREDENTIALS):
                raise
            return _gcloud_login()
    return found


def _gcloud_login() -> Credentials:
    try:
        done = subprocess.run(
            _GCLOUD, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=GCLOUD_SECONDS, check=False
        )
    except FileNotFoundError:
        raise LiveError(
            f"no login for Google Cloud: no application default credentials, gcloud is not on the PATH, and {VARIABLE} is not set. "
            f"Install gcloud (https://cloud.google.com/sdk/docs/install) and run `{LOGIN}`",
            reason="missing program",
        ) from None
    except subprocess.TimeoutExpired:
        raise LiveError(f"gcloud returned no access token within {GCLOUD_SECONDS:.0f} s", reason="timeout") from None
    if done.returncode != 0:
        own = GCLOUD.search(done.stderr)
        said = (own[1] if own else " ".join(done.stderr.split())[:300]).strip().rstrip(".")
        if OFFLINE.search(done.stderr):
            raise LiveError(
                f"gcloud could not reach Google to renew the access token: {said[:300]}. Check the network",
                reason="unreachable",
            )
        raise LiveError(f"gcloud returned no access token: {said}. Run `{LOGIN}`", reason="credentials")
    try:
        credential = json.loads(done.stdout)["credential"]
        expiry = datetime.strptime(credential["token_expiry"], "%Y-%m-%dT%H:%M:%SZ")  # google-auth expects naive UTC
        return oauth2.Credentials(str(credential["access_token"]), expiry=expiry)
    except (ValueError, KeyError, TypeError):
        # Do not show the output: it may contain a token.
        raise LiveError(
            f"`{' '.join(_GCLOUD)}` printed no access token with expiry; run `{LOGIN}`, or set {VARIABLE}",
            reason="credentials",
        ) from None


@contextlib.contextmanager
def as_live_errors(what: str, may: str) -> Iterator[None]:
    """Turns errors inside into LiveError. `what`: the attempt; `may`: the role that allows it.

    The reasons: forbidden, credentials, not found, unreachable, refused.
    """
    try:
        yield
    except (GoogleAPIError, GoogleAuthError, OSError) as error:
        # Among OSErrors: what requests raises.
        raise _live_error(what, may, _cause(error)) from None


def _cause(error: BaseException) -> BaseException:
    """The last error of the retries or the token request."""
    if isinstance(error, RetryError) and error.cause is not None:
        return _cause(error.cause)
    if isinstance(error, TransportError) and error.args and isinstance(error.args[0], Exception):
        return error.args[0]
    if isinstance(error, InvalidResponse):
        error = from_http_status(error.response.status_code, error.response.reason)
    elif isinstance(error, GoogleAPICallError) and error.response is not None:
        # A download's error has the whole document in its message.
        error = from_http_response(error.response)
    return error


def _live_error(what: str, may: str, error: BaseException) -> LiveError:
    # requests puts the URL before the reason.
    said = str(error).rpartition("(Caused by ")[2] or type(error).__name__
    if isinstance(error, GoogleAPICallError):
        return _refusal(what, may, int(error.code or 0), _METHOD_AND_URL.sub("", error.message))
    if isinstance(error, requests.exceptions.SSLError) and "CERTIFICATE_VERIFY_FAILED" in said:
        return LiveError(
            f"{what}: the certificate is not trusted: {said[-200:]}. Set REQUESTS_CA_BUNDLE to a file with trusted CAs, "
            "including your proxy's",
            reason="refused",
        )
    if isinstance(error, GoogleAuthError) and not isinstance(error, TransportError) and not error.retryable:
        return LiveError(f"{what}: no access token: {said[:300]}. Run `{LOGIN}`", reason="credentials")
    if isinstance(error, OSError) and error.filename is not None:
        return LiveError(f"{what}: cannot write {error.filename}: {error.strerror}")
    return LiveError(f"{what}: no answer: {said[:300]}", reason="unreachable")


def _refusal(what: str, may: str, status: int, said: str) -> LiveError:
    said = " ".join(said.split())[:300]
    if status == 401:
        return LiveError(
            f"{what}: Google rejected the access token: {said}. Run `{LOGIN}`, or update {VARIABLE}",
            reason="credentials",
        )
    if status == 403:
        return LiveError(f"{what}: permission denied: {said}. Required: {may}", reason="forbidden")
    if status == 404:
        return LiveError(f"{what}: not found: {said}", reason="not found")
    if status in (408, 429) or status >= 500:
        return LiveError(f"{what}: HTTP {status}: {said}", reason="unreachable")
    return LiveError(f"{what}: HTTP {status}: {said}", reason="refused")
