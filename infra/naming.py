"""Names of Google Cloud resources: readable, unique per prefix, within each length limit."""

from __future__ import annotations

from facts.names import fitted

MAX_NAME = 63
"""Longest name of a Compute resource, a repository or a bucket. Source: RFC 1035; Cloud Storage, bucket names."""
MAX_ACCOUNT_ID = 30
"""Longest id of a service account. Source: IAM, service accounts, account id."""
MAX_BUDGET_TITLE = 60
"""Longest display name of a budget, in characters. Source: Billing Budgets API v1, Budget.displayName."""
MAX_ACCOUNT_TITLE = 100
"""Longest display name of a service account, in bytes. Source: IAM API v1, ServiceAccount.displayName."""


def name_of(prefix: str, what: str, *, limit: int = MAX_NAME) -> str:
    """`<prefix>-<what>`; different prefixes never give the same name."""
    return fitted(prefix, after=what, limit=limit)


def bucket_name_of(project: str, prefix: str, what: str) -> str:
    """`<project>-<prefix>-<what>`: bucket names are global, so the project id goes first."""
    return fitted(f"{project}-{prefix}", after=what, limit=MAX_NAME)


def title(text: str, limit: int) -> str:
    """A display name: `text`, truncated to `limit` characters with dots. Not used as an identifier."""
    return text if len(text) <= limit else f"{text[: limit - 3]}..."
