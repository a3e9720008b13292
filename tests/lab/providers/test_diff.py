"""What an unknown value replaces, of Kubernetes' objects: as the stand-in of the real provider answers."""

from __future__ import annotations

from typing import Any

import pytest

from fleet.preview.record.values import UNKNOWN
from tests.support.plain_kubernetes import diff_of

SPEC: dict[str, Any] = {"replicas": 1, "selector": {"matchLabels": {"app": "a"}}}


@pytest.mark.parametrize(
    ("new", "replaces"),
    [
        (UNKNOWN, []),
        (SPEC | {"replicas": UNKNOWN}, []),
        (SPEC | {"selector": UNKNOWN}, ["spec"]),
        (SPEC | {"selector": {"matchLabels": {"app": "b"}}}, ["spec"]),
    ],
)
def test_an_unknown_value_replaces_an_object_if_its_own_path_does(new: Any, replaces: list[str]) -> None:
    answer = diff_of("kubernetes:apps/v1:Deployment", {"spec": SPEC}, {"spec": new})
    assert (list(answer.replaces), list(answer.diffs)) == (replaces, ["spec"])
