"""What an operator's commands do when the API server refuses."""

from __future__ import annotations

import time
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from lab.control_plane.api import ApiRefusedError
from lab.drills.operator import EVICTION_RETRY_SECONDS, evict
from lab.results.result import DrillBrokenOffError
from lab.stage import stage as stage_module
from lab.stage.stage import Stage


class Api:
    """Refuses evictions with these statuses, in order, then allows them."""

    def __init__(self, *refusals: int) -> None:
        self.refusals, self.asked = list(refusals), 0

    def evict(self, _namespace: str, _name: str) -> None:
        self.asked += 1
        if self.refusals:
            raise ApiRefusedError(
                self.refusals.pop(0), "Refused", "the budget needs 1 healthy pods and has 1 currently"
            )


def stage_with(api: Api) -> Any:
    stage: Any = SimpleNamespace(api=api, namespace="vllm")
    stage.until = partial(Stage.until, stage)
    return stage


@pytest.mark.parametrize(
    ("refusals", "asked"),
    [((), 1), ((429, 429), 3), ((429, 404), 2)],
    ids=["allowed", "refused twice", "gone meanwhile"],
)
def test_an_eviction_is_asked_for_again_as_kubectl_drain_does(refusals: tuple[int, ...], asked: int) -> None:
    api = Api(*refusals)
    began = time.monotonic()
    evict(stage_with(api), "server-0")
    assert api.asked == asked
    assert time.monotonic() - began >= EVICTION_RETRY_SECONDS * refusals.count(429)


def test_another_refusal_ends_an_eviction_at_once() -> None:
    api = Api(403)
    with pytest.raises(ApiRefusedError):
        evict(stage_with(api), "server-0")
    assert api.asked == 1


def test_an_eviction_that_is_never_allowed_breaks_the_drill_off_with_the_budgets_words(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(stage_module, "PATIENCE_SECONDS", 0.1)
    with pytest.raises(DrillBrokenOffError, match="1 healthy pods"):
        evict(stage_with(Api(*[429] * 10_000)), "server-0")
