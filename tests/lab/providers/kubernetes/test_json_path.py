"""JSONPath as far as readiness conditions need it."""

from __future__ import annotations

from typing import Any

import pytest

from lab.providers.kubernetes.json_path import JsonPathError, parse

ROUTE: dict[str, Any] = {
    "metadata": {"labels": {"example.com/tier": "gold"}},
    "status": {
        "ready": True,
        "parents": [
            {"conditions": [{"type": "Accepted", "status": "True"}, {"type": "ResolvedRefs", "status": "False"}]},
            {"conditions": [{"type": "Accepted", "status": "Unknown"}]},
        ],
        "counts": {"a": 1, "b": 2},
    },
}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("{.status.ready}", [True]),
        (".status.ready", [True]),
        ("status.ready", [True]),
        ("{$.status.ready}", [True]),
        ("{.status.missing}", []),
        ("{.status.parents[0].conditions[1].type}", ["ResolvedRefs"]),
        ("{.status.parents[-1].conditions[0].status}", ["Unknown"]),
        ("{.status.parents[7]}", []),
        ("{.status.parents[*].conditions[0].status}", ["True", "Unknown"]),
        ('{.status.parents[0].conditions[?(@.type=="ResolvedRefs")].status}', ["False"]),
        ("{.status.parents[0].conditions[?(@.type != 'Accepted')].status}", ["False"]),
        ("{.status.parents[*].conditions[?(@.reason)].type}", []),
        ("{.metadata.labels['example.com/tier']}", ["gold"]),
        (r"{.metadata.labels.example\.com/tier}", None),
        ("{.status.counts.*}", [1, 2]),
    ],
)
def test_paths_find_what_kubectl_finds(text: str, found: list[Any] | None) -> None:
    if found is None:
        with pytest.raises(JsonPathError):
            parse(text)
    else:
        assert parse(text).find(ROUTE) == found


@pytest.mark.parametrize("text", ["{}", "", "{.status[}", "{.a..b}", "{.a[x]}"])
def test_what_cannot_be_read_says_where(text: str) -> None:
    with pytest.raises(JsonPathError):
        parse(text)
