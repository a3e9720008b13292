"""The user's own access token for Google Cloud: from the environment, else from gcloud. Never printed, never written to disk."""

from __future__ import annotations

import json
import os
import subprocess
import threading
import time
from datetime import datetime
from typing import Final

from live.errors import LiveError
from live.kubectl_errors import GCLOUD, OFFLINE

VARIABLE: Final = "GOOGLE_OAUTH_ACCESS_TOKEN"
"""Source: Terraform's and Pulumi's Google providers read an access token from it."""
GCLOUD_SECONDS: Final = 60.0
"""Assumed: gcloud answers in a second or two; asking for a token may need a request of its own."""
SPARE_SECONDS: Final = 120.0
"""A token is renewed this long before its end, so that no download begins with one about to end."""
_COMMAND: Final = ("gcloud", "config", "config-helper", "--format=json", "--min-expiry=5m")
"""What gke-gcloud-auth-plugin asks, too: unlike `gcloud auth print-access-token` it says when the token ends."""


class GoogleToken:
    """Gives the token, renewed before its end. Safe to use from many threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._token, self._ends = "", 0.0

    def get(self) -> str:
        """A token that holds for a while. Raises LiveError: no gcloud, nobody logged in."""
        if given := os.environ.get(VARIABLE, "").strip():
            return given
        with self._lock:
            if time.time() >= self._ends - SPARE_SECONDS:
                self._token, self._ends = _from_gcloud()
            return self._token

    def refused(self, token: str) -> bool:
        """Google did not accept this token. Whether asking again may give another one."""
        if os.environ.get(VARIABLE, "").strip():
            return False
        with self._lock:
            if token == self._token:
                self._ends = 0.0
        return True

    def __repr__(self) -> str:
        return "GoogleToken()"


def _from_gcloud() -> tuple[str, float]:
    try:
        done = subprocess.run(
            _COMMAND, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=GCLOUD_SECONDS, check=False
        )
    except FileNotFoundError:
        raise LiveError(
            f"gcloud is not on the PATH, and {VARIABLE} is not set: one of them must say who asks Google Cloud. Install gcloud "
            "(https://cloud.google.com/sdk/docs/install) and run `gcloud auth login`",
            reason="missing program",
        ) from None
    except subprocess.TimeoutExpired:
        raise LiveError(f"gcloud gave no access token within {GCLOUD_SECONDS:.0f} s", reason="timeout") from None
    if done.returncode != 0:
        own = GCLOUD.search(done.stderr)
        said = own[1] if own else " ".join(done.stderr.split())[:300]
        if OFFLINE.search(done.stderr):
            raise LiveError(
                f"gcloud could not reach Google to renew the access token: {said[:300]}. Check the network",
                reason="unreachable",
            )
        raise LiveError(
            f"gcloud gives no access token: {said.strip().rstrip('.')}. Run `gcloud auth login`", reason="credentials"
        )
    try:
        credential = json.loads(done.stdout)["credential"]
        token = str(credential["access_token"])
        ends = datetime.fromisoformat(str(credential["token_expiry"]).replace("Z", "+00:00")).timestamp()
    except (ValueError, KeyError, TypeError):
        # Not what it printed: there may be a token in it.
        raise LiveError(
            f"`{' '.join(_COMMAND)}` printed no access token with its end; run `gcloud auth login`, or set {VARIABLE}",
            reason="credentials",
        ) from None
    return token, ends
