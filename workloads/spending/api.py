"""The Kubernetes API, as the spending guard asks it: with a service account's token, and lists in pages."""

from __future__ import annotations

import contextlib
import http.client
import json
import ssl
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any, Final

ANSWER_SECONDS: Final = 20.0
# A list is read in pages of so many objects: memory does not grow with the number of pods.
PAGE: Final = 100


class Api:
    """Kubernetes API client with a service account token, read for each request because the kubelet renews it."""

    date: float
    """The API server's clock at its last answer, seconds since 1970."""

    def __init__(self, url: str, account: Path) -> None:
        self._url, self._account = url, account
        handlers: list[urllib.request.BaseHandler] = [urllib.request.ProxyHandler({})]
        if url.startswith("https:"):
            context = ssl.create_default_context(cafile=str(account / "ca.crt"))
            # Python 3.13 requires extensions that some clusters' CAs do not have (Twingate/kubernetes-operator#1128); chain, name and
            # dates are still verified.
            context.verify_flags &= ~ssl.VERIFY_X509_STRICT
            handlers.append(urllib.request.HTTPSHandler(context=context))
        self._opener = urllib.request.build_opener(*handlers)

    def ask(self, method: str, path: str, body: Any = None, kind: str = "application/json") -> Any:
        """The response, or None if the object does not exist. Raises OSError if refused or unreachable."""
        headers = {"Authorization": f"Bearer {(self._account / 'token').read_text().strip()}", "Content-Type": kind}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self._url}{path}", data, headers, method=method)  # noqa: S310 - one fixed host
        try:
            with self._opener.open(request, timeout=ANSWER_SECONDS) as answer:
                self._see(answer.headers)
                return json.loads(answer.read())
        except urllib.error.HTTPError as error:
            self._see(error.headers)
            if error.code == 404:
                return None
            # The reason, e.g. of a webhook.
            with contextlib.suppress(ValueError, TypeError, KeyError, OSError, http.client.HTTPException):
                error.msg = str(json.loads(error.read())["message"])[:500]
            raise

    def each(self, path: str) -> Iterator[Any]:
        """The objects of a list, which is read page by page. Raises OSError."""
        after = ""
        while True:
            page = self.ask("GET", f"{path}{'&' if '?' in path else '?'}limit={PAGE}&continue={after}")
            if page is None:
                raise OSError(f"{path} is not there")
            yield from page["items"]
            after = urllib.parse.quote(page["metadata"].get("continue") or "")
            if not after:
                return

    def _see(self, headers: Any) -> None:
        if headers["Date"]:
            self.date = parsedate_to_datetime(headers["Date"]).timestamp()
