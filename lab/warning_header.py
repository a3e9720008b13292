"""Warning headers of an API server's responses."""

from __future__ import annotations

import re
from collections.abc import Iterable

_WARNING = re.compile(r'^299 [^ ]+ "(.*)"$', re.DOTALL)
"""Code, agent and quoted text. Source: RFC 9111, section 5.5, and RFC 7234; Kubernetes sends code 299 and no date."""


def texts(headers: Iterable[str]) -> list[str]:
    """Distinct texts of the `Warning` headers, in order. Other formats than Kubernetes' are returned unchanged."""
    found = (_text(header.strip()) for header in headers)
    return list(dict.fromkeys(found))


def _text(header: str) -> str:
    match = _WARNING.fullmatch(header)
    return header if match is None else re.sub(r"\\(.)", r"\1", match.group(1))
