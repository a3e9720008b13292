"""A client of the Kubernetes API that keeps the server's warnings. For tests only."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

from lab.control_plane.api import ClusterApi

_WARNING: Final = re.compile(r'^299 [^ ]+ "(.*)"$', re.DOTALL)
"""Code, agent and quoted text. Source: RFC 9111, section 5.5, and RFC 7234; Kubernetes sends code 299 and no date."""


class WarningApi(ClusterApi):
    """For one thread."""

    def __init__(self, client: Any) -> None:
        super().__init__(client)
        self.warnings: list[str] = []
        """Of the last request that was not refused."""

    def _open(self, method: str, path: str, **options: Any) -> Any:
        response = super()._open(method, path, **options)
        self.warnings = warning_texts(response.headers.getlist("Warning"))
        return response


def warning_texts(headers: Iterable[str]) -> list[str]:
    """Distinct texts of `Warning` headers, in order. Formats other than Kubernetes' are returned unchanged."""
    return list(dict.fromkeys(_warning_text(header.strip()) for header in headers))


def _warning_text(header: str) -> str:
    match = _WARNING.fullmatch(header)
    return header if match is None else re.sub(r"\\(.)", r"\1", match.group(1))
