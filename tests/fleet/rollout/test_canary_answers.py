"""What a watched canary's pods answer to a short question, and that `fleet rollout watch` halts it for a wrong answer."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from fleet.cli.exits import FINDINGS
from fleet.clients.errors import LiveError
from fleet.clients.google_api import VARIABLE
from fleet.clients.kubectl import Kubectl
from fleet.clients.prometheus import ENDPOINT_VARIABLE
from fleet.rollout.canary_answers import FAILURES, ID, CanaryAnswers
from fleet.rollout.steps import Rollout
from lab.simulators.bucket import TOKEN
from lab.simulators.model_server.node import Faults
from settings.stack import Settings
from tests.fleet.cli.command import ROOT, fleet
from tests.fleet.clients.fake_google import fake_google
from tests.fleet.verify.made_cluster import MadeCluster, accepted_route
from tests.fleet.verify.stacks import KEY, node_of, served

WRONG, DEAD = Faults(wrong_answers=True), Faults(engine_dead=True)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A project with a canary among the users of stack gateway."""
    for name in ("Pulumi.yaml", "Pulumi.gateway.yaml"):
        (tmp_path / name).write_bytes((ROOT / name).read_bytes())
    Rollout(tmp_path, "gateway").start({"engine": {"seed": 1}, "weight": 5}).write()
    return tmp_path


@pytest.fixture
def settings(folder: Path) -> Settings:
    return Rollout(folder, "gateway").settings


@pytest.fixture
def opened() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def cluster(folder: Path, settings: Settings, opened: ExitStack, *faults: Faults | None) -> MadeCluster:
    """A canary's pods, each with what is wrong with it."""
    canary = settings.as_canary
    assert canary is not None
    urls = [opened.enter_context(served(node_of(canary), one)) for one in faults]
    made = MadeCluster(folder / "cluster", canary, urls)
    made.write()
    return made


def asker(made: MadeCluster, settings: Settings, monkeypatch: pytest.MonkeyPatch, **key: Any) -> CanaryAnswers:
    monkeypatch.setenv("FAKE_CLUSTER", str(made.folder))
    kubectl = Kubectl(namespace=settings.namespace, program=str(made.folder / "bin" / "kubectl"))
    return CanaryAnswers(kubectl, settings, **key)


@pytest.mark.parametrize(
    ("faults", "asked", "expected"),
    [
        pytest.param((None,), 2, ("", "passed"), id="right"),
        pytest.param((None, WRONG), 1, ("-00001", "error"), id="one of two is wrong"),
        pytest.param((DEAD,), FAILURES - 1, ("", "passed"), id="none, not told yet"),
        pytest.param((DEAD,), FAILURES, ("-00000", "error"), id="none"),
        pytest.param((), 1, ("", "unknown"), id="no pod"),
    ],
)
def test_each_pods_answers_are_judged(
    faults: tuple[Faults | None, ...],
    asked: int,
    expected: tuple[str, str],
    folder: Path,
    settings: Settings,
    opened: ExitStack,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    here = asker(cluster(folder, settings, opened, *faults), settings, monkeypatch)
    for _ in range(asked):
        findings = here.ask()
    server = f"{settings.server.name}-canary"
    assert [(one.id, one.subject.removeprefix(server), one.severity) for one in findings] == [(ID, *expected)]


def test_a_pod_that_cannot_be_reached_is_no_answer(
    folder: Path, settings: Settings, opened: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = cluster(folder, settings, opened, None)
    made.forwards = {}
    made.write()
    with pytest.raises(LiveError):
        asker(made, settings, monkeypatch).ask()


def test_the_key_goes_to_the_servers(
    folder: Path, settings: Settings, opened: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    canary = settings.as_canary
    assert canary is not None
    made = MadeCluster(folder / "cluster", canary, [opened.enter_context(served(node_of(canary), guarded=True))])
    made.write()
    without, with_key = (asker(made, settings, monkeypatch, api_key=key) for key in (None, KEY))
    for _ in range(FAILURES):
        findings = (*without.ask(), *with_key.ask())
    assert [one.severity for one in findings] == ["error", "passed"]


def test_a_watch_halts_a_canary_that_answers_wrongly(folder: Path, settings: Settings, opened: ExitStack) -> None:
    made = cluster(folder, settings, opened, WRONG)
    pool = settings.gateway.pool
    made.objects[f"httproutes-{pool}"] = {
        **accepted_route(settings),
        "apiVersion": "gateway.networking.k8s.io/v1",
        "kind": "HTTPRoute",
        "metadata": {"name": pool, "managedFields": [{"manager": "pulumi-kubernetes-1", "operation": "Apply"}]},
    }
    made.write()
    with fake_google() as google:
        environment: dict[str, Any] = {ENDPOINT_VARIABLE: google.url, VARIABLE: TOKEN, "FAKE_CLUSTER": str(made.folder)}
        asked = ("--stack", "gateway", "--root", str(folder), "--context", "made")
        done = fleet("rollout", "watch", *asked, path=made.path, **environment)
    assert done.returncode == FINDINGS, done.stderr
    assert f"(error, {ID})" in done.stdout
    applied = json.loads((made.folder / "applied.json").read_text())
    assert [one["weight"] for one in applied["spec"]["rules"][0]["backendRefs"]] == [100, 0]
    assert Rollout(folder, "gateway").settings.canary_weight == 0
