"""Routers: their objects, and HAProxy's configuration before servers that answer."""

from __future__ import annotations

from typing import Any

import pulumi
import pytest

from fleet.preview.record.recorder import Mode, Recording
from settings.derived.router import router_needs
from settings.stack import Settings
from tests.support.recorded import manifest, objects, recorded_component
from tests.support.schemas import problems
from tests.workloads.args import server_args, space
from workloads.router.router import Router, RouterArgs
from workloads.server.server import Server

IMAGE = f"europe-west4-docker.pkg.dev/fleet-tests/images/vllm-router:0.1.17@sha256:{'a' * 64}"
KEY = {"server": {"replicas": 1, "apiKeySecret": "k"}}


def build(settings: Settings, opts: pulumi.ResourceOptions) -> object:
    server = Server("server", server_args(settings), opts)
    needs = router_needs(settings)
    assert needs is not None
    router = Router("router", RouterArgs(space=space(settings), server=server, **needs), opts)
    pulumi.export("endpoint", router.endpoint)
    return router


def record(mode: Mode = "known", *, router: dict[str, Any] | None = None, **sections: Any) -> Recording:
    kind = sections.pop("kind", "leastRequest")
    chosen = {"image": IMAGE} if kind == "prefixAware" else {}
    return recorded_component(
        build,
        mode,
        **{"server": {"replicas": 1}, "weights": {"source": "huggingface"}, **sections},
        endpoint={"kind": kind, "router": {**chosen, **(router or {})}},
    )


@pytest.mark.parametrize("mode", ["preview", "known"])
@pytest.mark.parametrize("kind", ["leastRequest", "prefixAware"])
@pytest.mark.parametrize("sections", [{}, KEY], ids=["open", "key"])
def test_every_object_would_be_accepted(mode: Mode, kind: str, sections: dict[str, Any]) -> None:
    recording = record(mode, kind=kind, **sections)
    found = {key: problems(manifest(one)) for key, one in objects(recording).items()}
    assert found == {key: [] for key in found}
