"""Names and labels of Google Cloud resources: readable, unique per stack, within each resource's limit."""

from __future__ import annotations

import hashlib
import re

from settings.settings import Settings

MAX_NAME = 63
"""Longest name of a Compute resource, a repository or a bucket. Source: RFC 1035; Cloud Storage, bucket names."""
MAX_ACCOUNT_ID = 30
"""Longest id of a service account. Source: IAM, service accounts, account id."""
MAX_BUDGET_TITLE = 60
"""Longest display name of a budget, in characters. Source: Billing Budgets API v1, Budget.displayName."""
MAX_ACCOUNT_TITLE = 100
"""Longest display name of a service account, in bytes. Source: IAM API v1, ServiceAccount.displayName."""


def name_of(settings: Settings, what: str, *, limit: int = MAX_NAME) -> str:
    """`<stack>-<what>`: two stacks of one project never ask for the same name."""
    return _fit(settings.stack, what, limit)


def bucket_name_of(settings: Settings, what: str) -> str:
    """`<project>-<stack>-<what>`: bucket names are shared by everybody, so the project's id goes first."""
    return _fit(f"{settings.project}-{settings.stack}", what, MAX_NAME)


def labels_of(settings: Settings) -> dict[str, str]:
    """Labels for everything that takes them: the stack file's, then `app` and `stack`, which cost reports group by."""
    return {**settings.labels, "app": "vllm-fleet", "stack": _fit(settings.stack, "", MAX_NAME)}


def title(text: str, limit: int) -> str:
    """`text` for a person to read, cut with dots where the API has room for `limit` letters; nothing tells two apart by it."""
    return text if len(text) <= limit else f"{text[: limit - 3]}..."


def _fit(prefix: str, what: str, limit: int) -> str:
    """`prefix-what` in the letters that Google Cloud accepts, with a hash in place of what had to be changed or cut."""
    tail = f"-{what}" if what else ""
    plain = re.sub(r"[^a-z0-9-]+", "-", prefix.lower()).strip("-")
    if not plain[:1].isalpha():
        plain = f"s-{plain}".rstrip("-")
    if plain == prefix and len(plain) + len(tail) <= limit:
        return f"{plain}{tail}"
    # "Dev" and "dev", or two names that differ only after the cut, must not meet.
    digest = hashlib.sha256(prefix.encode()).hexdigest()[:6]
    kept = plain[: limit - len(tail) - len(digest) - 1].rstrip("-")
    return f"{kept}-{digest}{tail}"
