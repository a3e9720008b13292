"""A canary among users: what is read of both sides, what halts it, and what a halt leaves in cluster and stack file."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any, cast
from unittest import mock

import pytest

from facts.finding import Finding
from facts.names import CANARY_ENDING
from fleet.cli.exits import CLEAN, FINDINGS
from fleet.clients.errors import LiveError, Reason
from fleet.clients.google_api import VARIABLE
from fleet.clients.kubectl import Kubectl
from fleet.clients.prometheus import ENDPOINT_VARIABLE, GpuSeries, ManagedPrometheus
from fleet.rollout.canary_answers import ID
from fleet.rollout.report import Judged
from fleet.rollout.soak import FAILED_LOOKS, halt_in_cluster, look, watch
from fleet.rollout.steps import Rollout
from lab.simulators.bucket import TOKEN
from settings.stack import Settings
from tests.fleet.cli.command import fleet
from tests.fleet.clients.fake_google import fake_google
from tests.support.rows import each_row
from tests.support.settings import make_settings

POOL = "qwen35-pool"
STEP = 30
SETTINGS = make_settings(gateway={"enabled": True}, rollout={"canary": {"engine": {"seed": 1}, "weight": 5}})
SERVERS = SETTINGS.server.name
CANARY = SERVERS + CANARY_ENDING
FAILS, SLOW, GONE, REQUESTS = "http_requests_total", "time_to_first_token", "available", "success"


class Prometheus:
    """Answers each expression of one side with the seconds for which it held at the end; others never held."""

    def __init__(self, held: Mapping[tuple[str, str], float], clock: list[float] | None = None) -> None:
        self.held, self.clock, self.troubles = held, clock, 0

    def range(self, query: str, began: float, ended: float, step: int) -> tuple[GpuSeries, ...]:
        if self.troubles:
            self.troubles -= 1
            raise LiveError("no answer", reason="unreachable")
        side = CANARY if f'"{CANARY}"' in query else SERVERS
        kinds = (FAILS, SLOW, GONE, REQUESTS)
        kind = next(kind for kind in kinds if kind in query)
        seconds = self.held.get((side, kind))
        if seconds is None:
            return ()
        first = max(began, ended - seconds)
        count = int((ended - first) // step) + 1
        return (GpuSeries("", {}, tuple((ended - step * number, 1.0) for number in reversed(range(count)))),)


def told(held: Mapping[tuple[str, str], float]) -> dict[tuple[str, str], str]:
    findings = look(cast(ManagedPrometheus, Prometheus(held)), SETTINGS, 0, 3600)
    return {(one.subject, one.id): one.severity for one in findings}


BUSY = {(CANARY, REQUESTS): 3600.0}
LOOKS: dict[str, tuple[dict[tuple[str, str], float], dict[tuple[str, str], str]]] = {
    "all is well": (BUSY, {}),
    "failing": (BUSY | {(CANARY, FAILS): 150}, {(CANARY, "soak-RequestsFail"): "error"}),
    "failing for less than the alert's time": (BUSY | {(CANARY, FAILS): 90}, {}),
    "slow": (BUSY | {(CANARY, SLOW): 150}, {(CANARY, "soak-FirstTokenSlow"): "error"}),
    "slow like the servers": (
        BUSY | {(CANARY, SLOW): 150, (SERVERS, SLOW): 150},
        {(CANARY, "soak-FirstTokenSlow"): "warning", (SERVERS, "soak-FirstTokenSlow"): "warning"},
    ),
    "slow for longer than the servers": (
        BUSY | {(CANARY, SLOW): 450, (SERVERS, SLOW): 150},
        {(CANARY, "soak-FirstTokenSlow"): "error", (SERVERS, "soak-FirstTokenSlow"): "warning"},
    ),
    "slow as long as the servers, and one look more": (
        BUSY | {(CANARY, SLOW): 180, (SERVERS, SLOW): 150},
        {(CANARY, "soak-FirstTokenSlow"): "warning", (SERVERS, "soak-FirstTokenSlow"): "warning"},
    ),
    "slow before the servers are for the alert's time": (
        BUSY | {(CANARY, SLOW): 150, (SERVERS, SLOW): 90},
        {(CANARY, "soak-FirstTokenSlow"): "warning"},
    ),
    "failing like the servers": (
        BUSY | {(CANARY, FAILS): 150, (SERVERS, FAILS): 150},
        {(CANARY, "soak-RequestsFail"): "error", (SERVERS, "soak-RequestsFail"): "warning"},
    ),
    "gone": (BUSY | {(CANARY, GONE): 90}, {(CANARY, "soak-CanaryGone"): "error"}),
    "servers failing": (BUSY | {(SERVERS, FAILS): 150}, {(SERVERS, "soak-RequestsFail"): "warning"}),
    "too few requests": ({(CANARY, REQUESTS): 1800.0}, {(CANARY, "soak-requests"): "unknown"}),
    "no requests": ({}, {(CANARY, "soak-requests"): "unknown"}),
}


@each_row("held, expected", LOOKS.values())
def test_only_what_holds_for_the_alerts_time_speaks_against_the_canary(
    held: dict[tuple[str, str], float], expected: dict[tuple[str, str], str]
) -> None:
    seen = told(held)
    assert {where: severity for where, severity in seen.items() if severity != "passed"} == expected
    assert {where for where in seen if where[0] == SERVERS} == {
        (SERVERS, "soak-RequestsFail"),
        (SERVERS, "soak-FirstTokenSlow"),
    }


def watched_for(
    prometheus: Prometheus, ask: Callable[[], tuple[Finding, ...]] = tuple, seconds: float = 600
) -> tuple[float, set[str]]:
    clock = [0.0]

    def pause(by: float) -> None:
        clock[0] += by

    findings = watch(SETTINGS, prometheus, ask, seconds=seconds, pause=pause, now=lambda: clock[0])
    return clock[0], {one.id for one in findings if one.severity == "error"}


def test_watching_ends_at_the_first_error_and_otherwise_after_its_time() -> None:
    assert watched_for(Prometheus(BUSY)) == (600, set())
    # The time since the start is looked at: 120 s of failures take 120 s.
    assert watched_for(Prometheus(BUSY | {(CANARY, FAILS): 10_000})) == (120, {"soak-RequestsFail"})


@pytest.mark.parametrize(
    ("troubles", "expected"), [(FAILED_LOOKS - 1, (600, set())), (FAILED_LOOKS, (60, {"soak-unseen"}))]
)
def test_what_nobody_sees_is_halted(troubles: int, expected: tuple[float, set[str]]) -> None:
    prometheus = Prometheus(BUSY)
    prometheus.troubles = troubles
    assert watched_for(prometheus) == expected


def test_a_wrong_answer_ends_the_watch() -> None:
    given = Finding(id=ID, subject=f"{CANARY}-1", found="without 4711")
    assert watched_for(Prometheus(BUSY), lambda: (given,)) == (0, {ID})


def test_a_canary_that_cannot_be_asked_is_halted_and_what_is_seen_counts_meanwhile() -> None:
    def unreachable() -> tuple[Finding, ...]:
        raise LiveError("no cluster", reason="unreachable")

    assert watched_for(Prometheus(BUSY), unreachable) == (60, {"soak-unseen"})
    gone = Prometheus(BUSY | {(CANARY, GONE): 10_000})
    assert watched_for(gone, unreachable) == (60, {"soak-CanaryGone", "soak-unseen"})


def route(*weights: int, pool: str = POOL) -> dict[str, Any]:
    names = (pool, f"{pool}-canary")[: len(weights)]
    return {
        "apiVersion": "gateway.networking.k8s.io/v1",
        "kind": "HTTPRoute",
        "metadata": {
            "name": POOL,
            "namespace": SETTINGS.namespace,
            "resourceVersion": "7",
            "managedFields": [
                {"manager": "gke", "operation": "Update"},
                {"manager": "pulumi-kubernetes-1234abcd", "operation": "Apply"},
            ],
        },
        "spec": {
            "rules": [
                {
                    "backendRefs": [
                        {"kind": "InferencePool", "name": name, "weight": weight}
                        for name, weight in zip(names, weights, strict=True)
                    ]
                }
            ]
        },
        "status": {},
    }


class Cluster:
    """Keeps what is applied."""

    def __init__(self, there: dict[str, Any]) -> None:
        self.there, self.applied = there, list[tuple[tuple[str, ...], dict[str, Any]]]()

    def run(self, *arguments: str, what: str, stdin: str | None = None) -> str:
        assert what
        patch = next((one.removeprefix("--patch=") for one in arguments if one.startswith("--patch=")), None)
        if (sent := stdin or patch) is not None:
            self.applied.append((arguments, json.loads(sent)))
        return json.dumps(self.there)


def halted(there: dict[str, Any], settings: Settings = SETTINGS) -> tuple[bool, Cluster]:
    cluster = Cluster(there)
    return halt_in_cluster(cast(Kubectl, cluster), settings), cluster


def test_a_halt_gives_the_servers_every_request_as_pulumis_own_manager() -> None:
    done, cluster = halted(route(95, 5))
    [(arguments, applied)] = cluster.applied
    assert done
    assert [one["weight"] for one in applied["spec"]["rules"][0]["backendRefs"]] == [100, 0]
    assert "--field-manager=pulumi-kubernetes-1234abcd" in arguments
    assert applied.keys() == {"apiVersion", "kind", "metadata", "spec"}
    assert applied["metadata"].keys() == {"name", "namespace"}


def test_a_halt_finds_the_pools_of_another_picker() -> None:
    canary = {"engine": {"seed": 1}, "weight": 5}
    settings = make_settings(
        "gateway", gateway={"enabled": True, "epp": {"release": "llm-d-router-v0.10.0"}}, rollout={"canary": canary}
    )
    done, cluster = halted(route(95, 5, pool=f"{POOL}-llm-d"), settings)
    [(_, applied)] = cluster.applied
    assert done
    assert [one["weight"] for one in applied["spec"]["rules"][0]["backendRefs"]] == [100, 0]


def test_a_route_that_was_never_updated_is_patched_as_its_creator() -> None:
    there = route(95, 5)
    there["metadata"]["managedFields"] = [{"manager": "pulumi-kubernetes", "operation": "Update"}]
    done, cluster = halted(there)
    [(_, patched)] = cluster.applied
    assert done
    assert [one["weight"] for one in patched["spec"]["rules"][0]["backendRefs"]] == [100, 0]


def test_a_route_without_the_canary_stays() -> None:
    done, cluster = halted(route(1))
    assert (done, cluster.applied) == (False, [])


@pytest.mark.parametrize("command", ["watch", "halt"])
def test_an_offline_trial_is_not_watched(command: str, tmp_path: Path) -> None:
    folder = copied(tmp_path)
    for stack in ("gateway", "dev"):
        without = fleet("rollout", command, "--stack", stack, "--root", str(folder))
        assert (without.returncode, "fleet rollout start" in without.stderr) == (2, True), without.stderr
        Rollout(folder, stack).start({"engine": {"seed": 1}}).write()
        done = fleet("rollout", command, "--stack", stack, "--root", str(folder))
        assert (done.returncode, "no canary among users" in done.stderr) == (2, True)
        assert "fleet rollout weight" not in done.stderr, "who takes users back is not told to give some"


def test_the_weight_is_one_key_of_the_stack_file_and_needs_a_gateway(tmp_path: Path) -> None:
    folder = copied(tmp_path)
    Rollout(folder, "gateway").start({"engine": {"seed": 1}}).write()
    for percent in (5, 0):
        assert fleet("rollout", "weight", str(percent), "--stack", "gateway", "--root", str(folder)).returncode == 0
        settings = Rollout(folder, "gateway").settings
        assert (settings.canary_weight, settings.canary_pool) == (percent, f"{POOL}-canary")
    Rollout(folder, "dev").start({"engine": {"seed": 1}}).write()
    done = fleet("rollout", "weight", "5", "--stack", "dev", "--root", str(folder))
    assert (done.returncode, "offline trial" in done.stdout + done.stderr) == (2, True)


def among_users(tmp_path: Path) -> Path:
    folder = copied(tmp_path)
    Rollout(folder, "gateway").start({"engine": {"seed": 1}, "weight": 5}).write()
    return folder


def test_a_canary_that_users_did_not_try_is_not_promoted(tmp_path: Path) -> None:
    folder = among_users(tmp_path)
    before = (folder / "Pulumi.gateway.yaml").read_bytes()
    judged = Judged(file=tmp_path / "verdict", verdict="promote", headline="good", applies=True)
    with fake_google() as google, mock.patch("fleet.cli.rollout._promoting", return_value=judged):
        login: dict[str, Any] = {ENDPOINT_VARIABLE: google.url, VARIABLE: TOKEN}
        done = fleet("rollout", "promote", "--stack", "gateway", "--root", str(folder), **login)
        asked = [form["query"] for form in google.forms]
    assert done.returncode == FINDINGS, done.stderr
    assert (folder / "Pulumi.gateway.yaml").read_bytes() == before
    assert {f'"{CANARY}"' in query for query in asked} == {True, False}


UNREACHABLE = {
    "no kubectl": ("--context", "none"),
    "no pulumi": (),
    "empty outputs": ("--outputs", "outputs.json"),
}


@each_row("given", UNREACHABLE.values())
def test_a_halt_declares_it_also_where_the_cluster_does_not_answer(given: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "outputs.json").write_text("{}")
    folder = among_users(tmp_path)
    stack = ("--stack", "gateway", "--root", str(folder))
    done = fleet("rollout", "halt", *stack, *given, cwd=folder, path=str(tmp_path))
    assert done.returncode not in (CLEAN, FINDINGS), "the users may still reach the canary"
    assert Rollout(folder, "gateway").settings.canary_weight == 0
    for said in (
        "not halted",
        "Pulumi.gateway.yaml",
        "weight: 0",
        "pulumi up --stack gateway",
        "fleet rollout halt --stack gateway",
    ):
        assert said in done.stderr
    status = fleet("rollout", "status", *stack)
    assert "fleet verify --stack gateway" in status.stdout, "the route may differ from the stack file"


def watching(folder: Path) -> CompletedProcess[str]:
    """`fleet rollout watch` where neither a login nor a program is."""
    stack = ("--stack", "gateway", "--root", str(folder), "--context", "none")
    return fleet("rollout", "watch", *stack, path=str(folder), HOME=str(folder))


def test_a_watch_that_cannot_halt_says_so(tmp_path: Path) -> None:
    bad = Finding(id=ID, subject=CANARY, found="without 4711")
    with mock.patch("fleet.rollout.soak.watch", return_value=(bad,)):
        done = watching(among_users(tmp_path))
    assert (done.returncode, "not halted" in done.stderr, ID in done.stdout or "4711" in done.stdout) == (2, True, True)
    assert Rollout(tmp_path, "gateway").settings.canary_weight == 0


def test_a_watch_without_a_login_is_refused_at_once_and_halts_nothing(tmp_path: Path) -> None:
    folder = among_users(tmp_path)
    before = (folder / "Pulumi.gateway.yaml").read_bytes()
    with mock.patch("time.sleep", side_effect=AssertionError("waited")):
        done = watching(folder)
    assert (done.returncode, done.stdout, "login" in done.stderr) == (2, "", True), done.stderr
    assert (folder / "Pulumi.gateway.yaml").read_bytes() == before


LOGINS: dict[str, tuple[tuple[Reason, ...], tuple[float, set[str]] | None]] = {
    "no login": (("credentials",), None),
    "no role": (("forbidden",), None),
    "no program": (("missing program",), None),
    "no network": (("unreachable",) * FAILED_LOOKS, (60, {"soak-unseen"})),
    "a login that ended": (("", *("credentials",) * FAILED_LOOKS), (90, {"soak-unseen"})),
}


@each_row("reasons, expected", LOGINS.values())
def test_only_what_was_missing_from_the_start_halts_nothing(
    reasons: tuple[Reason, ...], expected: tuple[float, set[str]] | None
) -> None:
    to_come = list(reasons)

    def ask() -> tuple[Finding, ...]:
        if to_come and (reason := to_come.pop(0)):
            raise LiveError("no look", reason=reason)
        return ()

    if expected is None:
        with pytest.raises(LiveError):
            watched_for(Prometheus(BUSY), ask)
    else:
        assert watched_for(Prometheus(BUSY), ask) == expected


def copied(folder: Path) -> Path:
    root = Path(__file__).parents[3]
    for name in ("Pulumi.yaml", "Pulumi.gateway.yaml", "Pulumi.dev.yaml"):
        (folder / name).write_bytes((root / name).read_bytes())
    return folder
