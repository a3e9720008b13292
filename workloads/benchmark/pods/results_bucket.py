"""The results bucket as seen from a pod: put an object. Plain HTTP, because the vLLM image has no gcloud."""

from __future__ import annotations

import http.client
import json
import logging
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

STORAGE_URL = "https://storage.googleapis.com"
METADATA_URL = "http://metadata.google.internal"
TOKEN_PATH = "/computeMetadata/v1/instance/service-accounts/default/token"  # noqa: S105 - a path
ATTEMPTS = 6
LOG = logging.getLogger("results_bucket")


class BucketError(Exception):
    """A request to the bucket failed; the message has the request and the answer."""


def pod_token(metadata_url: str) -> tuple[str, float]:
    """A token of the pod's identity, and its lifetime in seconds.

    Raises ConnectionError: a metadata server that is not up yet answers in many ways, and none of them is the bucket's.
    """
    request = urllib.request.Request(f"{metadata_url}{TOKEN_PATH}", headers={"Metadata-Flavor": "Google"})  # noqa: S310
    try:
        with urllib.request.urlopen(request, timeout=10) as response:  # noqa: S310
            answer = json.load(response)
        return str(answer["access_token"]), float(answer["expires_in"])
    except urllib.error.HTTPError as error:
        problem = f"HTTP {error.code}"
    except (OSError, http.client.HTTPException) as error:
        problem = str(error) or type(error).__name__
    except (ValueError, KeyError, TypeError):
        problem = "there is no token in its answer"
    raise ConnectionError(f"the metadata server gave no token: {problem}")


@dataclass
class Bucket:
    """One Cloud Storage bucket, reached with the pod's own identity (Workload Identity, no key file)."""

    name: str
    storage_url: str = STORAGE_URL
    metadata_url: str = METADATA_URL
    pause_seconds: float = 2.0
    """Pause before the second attempt; doubles after every further one."""
    attempts: int = ATTEMPTS
    timeout_seconds: float = 120.0
    """Timeout of one step of a call, not of a whole upload."""
    _token: tuple[str, float] = field(default=("", 0.0), repr=False)

    def put(self, object_name: str, content: bytes | Path, *, again: bool = False) -> None:
        """Store bytes or a file once; an existing object stays, as after a lost answer. `again`: overwrite it.

        A measurement's name is its own, so nothing else has stored that object. Raises BucketError after the last attempt.
        """
        query = {"uploadType": "media", "name": object_name} | ({} if again else {"ifGenerationMatch": "0"})
        url = f"{self.storage_url}/upload/storage/v1/b/{self.name}/o?{urllib.parse.urlencode(query)}"
        size = len(content) if isinstance(content, bytes) else content.stat().st_size

        def send() -> None:
            headers = {"Content-Type": "application/octet-stream", "Content-Length": str(size)}
            try:
                if isinstance(content, bytes):
                    answer = self._call(url, data=content, headers=headers)
                else:
                    with content.open("rb") as file:
                        answer = self._call(url, data=file, headers=headers)
            except urllib.error.HTTPError as error:
                if not again and (error.code == 412 or (error.code == 403 and self._has(object_name))):
                    return  # 403: pods may not overwrite (unverified which of the two comes first)
                raise
            stored = int(answer.get("size", -1))
            if stored != size:
                raise BucketError(f"{object_name}: sent {size} bytes, the bucket has {stored}")

        self._persist(f"put gs://{self.name}/{object_name}", send)

    def hasty(self) -> Bucket:
        """The same bucket for optional writes: one attempt, ten seconds. A separate object for use in a thread."""
        return replace(self, attempts=1, timeout_seconds=10.0)

    def _has(self, object_name: str) -> bool:
        query = urllib.parse.urlencode({"prefix": object_name, "fields": "items(name)"})
        found = self._call(f"{self.storage_url}/storage/v1/b/{self.name}/o?{query}").get("items", ())
        return any(item["name"] == object_name for item in found)

    def _call(self, url: str, data: Any = None, headers: dict[str, str] | None = None) -> dict[str, Any]:
        headers = {"Authorization": f"Bearer {self._bearer()}", **(headers or {})}
        request = urllib.request.Request(url, data=data, headers=headers)  # noqa: S310 - http(s) by construction
        with urllib.request.urlopen(request, timeout=self.timeout_seconds) as response:  # noqa: S310
            answer: dict[str, Any] = json.load(response)
            return answer

    def _bearer(self) -> str:
        token, expires = self._token
        if time.time() >= expires:
            token, seconds = pod_token(self.metadata_url)
            # A minute early, so that no token expires during an upload.
            self._token = (token, time.time() + seconds - 60)
        return token

    def _persist(self, what: str, action: Callable[[], None]) -> None:
        pause = self.pause_seconds
        for attempt in range(1, self.attempts + 1):
            try:
                return action()
            except urllib.error.HTTPError as error:
                said = _said(error)
                # Only overloaded or failing servers are retried.
                if error.code < 500 and error.code not in (401, 408, 429):
                    raise BucketError(f"{what}: HTTP {error.code}: {said}") from None
                problem = f"HTTP {error.code}: {said}"
                self._token = ("", 0.0)
            except (OSError, http.client.HTTPException, ValueError, BucketError) as error:
                # A truncated answer is an HTTPException or invalid JSON.
                problem = str(error) or type(error).__name__
            if attempt == self.attempts:
                raise BucketError(f"{what}: given up after {self.attempts} attempts: {problem}")
            LOG.warning("%s: %s; again in %.0f s", what, problem, pause)
            time.sleep(pause)
            pause *= 2
        return None


def _said(error: urllib.error.HTTPError) -> str:
    try:
        return error.read(300).decode(errors="replace")
    except (OSError, http.client.HTTPException):
        return error.reason
