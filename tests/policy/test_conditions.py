"""Conditions of grants, and label selectors as text, as Google and Kubernetes read them."""

from __future__ import annotations

import pytest

from conditions import covers
from objects import selects_by_text
from tests.support.rows import each_row

_OBJECT = "resource.type == 'storage.googleapis.com/Object'"


@each_row(
    ("condition", "holds"),
    [
        ("resource.name.endsWith('/progress.json')", False),
        ('resource.name.startsWith("projects/_/buckets/b/objects/batches/")', True),
        ("resource.name == 'projects/_/buckets/b/objects/batches/x/results/0'", True),
        ("resource.name != 'projects/_/buckets/b/objects/batches/x/results/0'", False),
        ("resource.name.extract('/objects/batches/{batch}/leases/') != ''", False),
        ("resource.name.extract('/objects/batches/{batch}/results/') != ''", True),
        ("resource.name.extract('/objects/batches/{batch}/results/') == 'x'", True),
        ("resource.name.extract('{all}') != ''", True),
        (f"{_OBJECT} && resource.name.endsWith('0')", True),
        (f"{_OBJECT} && !resource.name.endsWith('0')", False),
        ("resource.name.endsWith('1') || resource.name.endsWith('2') || resource.name.endsWith('0')", True),
        ("!(resource.name.endsWith('1') || resource.name.endsWith('0'))", False),
        # && binds more than ||.
        ("resource.name.endsWith('0') || resource.name.endsWith('1') && resource.name.endsWith('2')", True),
        ("resource.service == 'storage.googleapis.com'", True),
    ],
)
def test_a_condition_holds_for_an_object_as_google_evaluates_it(condition: str, holds: bool) -> None:
    assert covers(condition, "b", "batches/x/results/0") is holds


@each_row(
    "condition",
    [
        "",
        "request.time < timestamp('2030-01-01T00:00:00Z')",
        "resource.name.matches('.*')",
        "resource.name",
        "resource.name.endsWith('0') resource.name.endsWith('1')",
        "(resource.name.endsWith('0')",
        "resource.name.extract('/objects/') != ''",
        "api.getAttribute('x', '') == ''",
    ],
)
def test_a_condition_that_is_not_understood_is_an_error(condition: str) -> None:
    with pytest.raises(ValueError, match=r".*"):
        covers(condition, "b", "batches/x/results/0")


@each_row(
    ("selector", "selects"),
    [
        ("app=batch", False),
        ("app=server", True),
        ("app == server, tier!=gold", True),
        ("app in (batch, server)", True),
        ("app notin (batch,server)", False),
        ("app", True),
        ("!app", False),
        ("!gone", True),
        ("", True),
        ("app=server,tier in (gold)", False),
        ("app~server", False),
    ],
)
def test_a_selector_as_text_selects_as_kubernetes_reads_it(selector: str, selects: bool) -> None:
    assert selects_by_text(selector, {"app": "server", "tier": "silver"}) is selects
