"""The spending guard's program, against an API in memory or over HTTP, and on a clock that tests move."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from email.message import Message
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.error import HTTPError
from urllib.parse import parse_qs, urlsplit

import pytest

from facts.signals import logs
from tests.support.rows import each_row
from workloads.spending import api as paging
from workloads.spending import guard as program
from workloads.spending.api import Api
from workloads.spending.guard import CLOSED, QUOTA, Guard
from workloads.spending.spending import program as shipped
from workloads.spending.total import DamagedSumError, Sum, Terms
from workloads.spending.verdict import GPU

START = 1_800_000_000.0
TERMS = Terms(
    namespace="vllm",
    home="vllm-spending",
    limit_usd=1000.0,
    every=None,
    until=None,
    since=None,
    then="pause",
    on_unknown="warn",
    warn_at=(0.5, 0.95),
    usd_per_hour_fixed=1.0,
    usd_per_machine_hour=40.0,
    usd_per_rung_hour={},
    reserved_machines=0,
    usd_per_reserved_hour=0.0,
    unknown=(),
    interval_seconds=30,
    idle_seconds=600,
    grace_seconds=0,
)


class Cluster:
    """As much of the API as the guard asks, and two clocks."""

    def __init__(self) -> None:
        self.wall = self.server = 0.0
        self.pods: dict[str, dict[str, Any]] = {}
        self.sets: dict[str, dict[str, Any]] = {}
        self.nodes: dict[str, dict[str, Any]] = {}
        self.state: str | None = None
        self.is_there = True
        self.version = 1
        self.quota: dict[str, Any] | None = None
        self.in_force = True
        self.away = False
        self.refuses: set[tuple[str, str]] = set()
        self.deleted: list[str] = []
        self.options: dict[str, Any] = {}

    @property
    def date(self) -> float:
        return START + self.server

    def passes(self, seconds: float) -> None:
        self.wall += seconds
        self.server += seconds

    def pod(self, name: str, node: str = "", *, gpus: str = "8", **spec: Any) -> None:
        limits = {GPU: gpus} if gpus != "0" else {}
        told = {"containers": [{"resources": {"limits": limits}}], **({"nodeName": node} if node else {}), **spec}
        self.pods[name] = {"metadata": {"name": name, "uid": name}, "spec": told}

    def each(self, path: str) -> Iterator[Any]:
        yield from self.ask("GET", path)["items"]

    def ask(self, method: str, path: str, body: Any = None, _: str = "") -> Any:
        if self.away:
            raise OSError("nobody answers")
        place, what = path.partition("?")[0].split("/namespaces/")[-1].removeprefix("/api/v1/").split("/", 1)
        steps = what.split("/")
        if (method, steps[-1]) in self.refuses or (method, f"{place}/{steps[-1]}") in self.refuses:
            raise HTTPError(path, 403, "a webhook says no", Message(), None)
        match method, [place, *steps]:
            case "GET", ["nodes", name]:
                return self.nodes.get(name)
            case "GET", ["vllm", "pods"]:
                return {"items": list(self.pods.values())}
            case "DELETE", ["vllm", "pods", name]:
                self.deleted.append(name)
                self.options[name] = body
                return self.pods.pop(name, None)
            case "GET", ["vllm", "replicasets"]:
                return {"items": list(self.sets.values())}
            case "PATCH", ["vllm", "replicasets", name, "status"]:
                self.sets[name]["status"] |= body["status"]
            case "GET", ["vllm-spending", "configmaps", "spending"] if self.is_there:
                data = {} if self.state is None else {"data": {"state": self.state}}
                return {"metadata": {"resourceVersion": str(self.version)}, **data}
            case "PATCH", ["vllm-spending", "configmaps", "spending"]:
                if body["metadata"].get("resourceVersion", "") != (str(self.version) if self.is_there else ""):
                    raise HTTPError(path, 409, "the object has been modified", Message(), None)
                self.is_there, self.version, self.state = True, self.version + 1, body["data"]["state"]
                return {"metadata": {"resourceVersion": str(self.version)}}
            case "GET", ["vllm", "roles", "spending-guard"]:
                return {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"uid": "u"}}
            case "PATCH", ["vllm", "resourcequotas", "spending-pause"]:
                spec = {**(self.quota or {"spec": {}})["spec"], **body["spec"]}
                self.quota = {**body, "spec": spec, "status": {"hard": spec["hard"]} if self.in_force else {}}
                return self.quota
            case "DELETE", ["vllm", "resourcequotas", "spending-pause"]:
                gone, self.quota = self.quota, None
                return gone
            case "GET", _:
                return None
            case _:
                raise AssertionError((method, path))
        return {}

    def spoil(self, state: str | None, *, is_there: bool = True) -> None:
        self.state, self.is_there, self.version = state, is_there, self.version + 1

    @property
    def kept(self) -> dict[str, Any]:
        return dict(json.loads(self.state or "{}"))


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    made = Cluster()
    monkeypatch.setattr(time, "monotonic", lambda: made.wall)
    return made


class Watched:
    """A guard that takes turns, and the lines it has written."""

    def __init__(self, cluster: Cluster, capsys: pytest.CaptureFixture[str], terms: Mapping[str, Any]) -> None:
        self.guard = Guard(cluster, replace(TERMS, **terms))  # type: ignore[arg-type]
        self._capsys = capsys
        self.rates: list[dict[str, Any]] = []
        """Lines with what an hour costs."""

    def turn(self) -> list[dict[str, Any]]:
        try:
            self.guard.turn()
        except OSError as error:
            self.guard.fail(error)
        lines = [json.loads(line) for line in self._capsys.readouterr().out.splitlines()]
        self.rates += [line for line in lines if line["event"] == "spending-rate"]
        return [line for line in lines if line["event"] == "spending"]

    def steps(self) -> list[str]:
        return [line["step"] for line in self.turn()]


@pytest.fixture
def guarding(cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> Any:
    return lambda **terms: Watched(cluster, capsys, terms)


def test_it_counts_machines_with_gpus_and_what_is_always_there(cluster: Cluster, guarding: Any) -> None:
    cluster.pod("a", "n1", gpus="4")
    cluster.pod("b", "n1", gpus="4")
    cluster.pod("c", "n2")
    cluster.pod("waiting")
    cluster.pod("writer", "n4", gpus="0")
    guard = guarding()
    assert [line["step"] for line in guard.turn()] == ["started"]
    cluster.passes(1800)
    guard.turn()
    assert cluster.kept["usd"] == pytest.approx((2 * 40 + 1) / 2)
    assert cluster.kept["usdPerHour"] == 81


def test_it_logs_once_a_minute_what_an_hour_of_the_machines_costs(cluster: Cluster, guarding: Any) -> None:
    labels = {"r1": {"cloud.google.com/reservation-name": "block-7"}, "s1": {"cloud.google.com/gke-spot": "true"}}
    cluster.nodes = {name: {"metadata": {"labels": own}} for name, own in labels.items()}
    cluster.pod("a", "r1")
    guard = guarding(
        usd_per_rung_hour={"reservation": 90.0, "spot": 35.0}, reserved_machines=2, usd_per_reserved_hour=88.0
    )
    for _ in range(7):  # turns of 31 seconds
        guard.turn()
        cluster.passes(31)
    # The second reserved machine stands idle; what is fixed is left out.
    assert [line["machinesUsdPerHour"] for line in guard.rates] == [178.0] * 4
    assert (program.RATE_SECONDS, guard.rates[0]["event"]) == (logs.RATE_SECONDS, logs.RATE_EVENT)
    cluster.pod("b", "s1")
    cluster.passes(7200)
    guard.turn()
    cluster.passes(31)
    guard.turn()
    # After two hours' silence it says the minute that is, and not those that were.
    assert [line["machinesUsdPerHour"] for line in guard.rates[4:]] == [213.0]
    assert guard.rates[-1]["usdPerHour"] == 214.0


def test_a_machine_is_paid_for_its_idle_minutes_after_its_pod(cluster: Cluster, guarding: Any) -> None:
    cluster.pod("a", "n1")
    guard = guarding()
    guard.turn()
    cluster.pods.clear()
    for _ in range(30):
        cluster.passes(60)
        guard.turn()
    # Its last minute in full, as nobody saw when the pod went, and ten more.
    assert cluster.kept["usd"] == pytest.approx(40 * 11 / 60 + 0.5)


@pytest.mark.parametrize("restarted", [True, False])
def test_a_gap_counts_at_the_larger_size_of_its_ends(cluster: Cluster, guarding: Any, restarted: bool) -> None:
    cluster.pod("a", "n1")
    guard = guarding()
    guard.turn()
    cluster.away = True
    cluster.passes(1800)
    assert guard.steps() == []
    cluster.passes(1800)
    assert guard.steps() == ["blind"]
    cluster.away = False
    cluster.pods.clear()
    cluster.pod("b", "n2")
    (guarding() if restarted else guard).turn()
    assert cluster.kept["usd"] == pytest.approx(2 * 40 + 1)


def test_a_clock_that_jumps_neither_adds_nor_loses_within_a_process(cluster: Cluster, guarding: Any) -> None:
    cluster.pod("a", "n1")
    guard = guarding(until="2030-01-01T00:00:00Z")
    guard.turn()
    for jump in (10 * 365 * 86_400, -20 * 365 * 86_400):
        cluster.server += jump
        cluster.passes(1800)
        assert guard.steps() == ["blind"]
    assert cluster.kept["usd"] == pytest.approx(41)


@pytest.mark.parametrize(("jump", "hours"), [(400 * 86_400, 24), (-400 * 86_400, 0)])
def test_between_two_processes_it_adds_a_day_at_most(cluster: Cluster, guarding: Any, jump: int, hours: int) -> None:
    cluster.pod("a", "n1")
    guarding(limit_usd=None).turn()
    cluster.server += jump
    assert guarding(limit_usd=None).steps() == ["blind", "started"]
    assert cluster.kept["usd"] == pytest.approx(41 * hours)
    assert cluster.kept["unknown"]


def test_each_share_is_warned_of_once_and_again_after_a_renewal(cluster: Cluster, guarding: Any) -> None:
    cluster.pod("a", "n1")
    guard = guarding(limit_usd=100.0)
    guard.turn()
    told: list[float] = []
    for _ in range(20):
        cluster.passes(300)
        told += [line["share"] for line in guard.turn() if line["step"] == "warned"]
    assert told == [0.5]
    assert guarding(limit_usd=100.0).steps() == ["started"]
    assert guarding(limit_usd=1000.0).steps() == ["started"]
    assert guarding(limit_usd=100.0).steps() == ["started", "warned"]


def test_it_pauses_before_the_limit_by_what_idle_machines_still_cost(cluster: Cluster, guarding: Any) -> None:
    cluster.pod("a", "n1")
    guard = guarding(limit_usd=100.0)
    guard.turn()
    while cluster.quota is None:
        cluster.passes(30)
        guard.turn()
    assert cluster.deleted == ["a"]
    assert cluster.quota["spec"]["hard"] == CLOSED
    owner = cluster.quota["metadata"]["ownerReferences"][0]
    assert (owner["kind"], owner["name"], owner["uid"]) == ("Role", "spending-guard", "u")
    steps: list[str] = []
    for _ in range(40):
        cluster.passes(30)
        steps += guard.steps()
    # Said again every five minutes of these twenty.
    assert [step for step in steps if step != "paused"] == ["warned"]
    assert steps.count("paused") == 4
    assert cluster.kept["usd"] == pytest.approx(100, abs=1)
    assert cluster.quota is not None


def test_no_pod_goes_before_the_quota_is_in_force_and_twenty_go_at_a_time(cluster: Cluster, guarding: Any) -> None:
    for number in range(50):
        cluster.pod(f"p{number}", f"n{number}")
    cluster.pod("writer", "n60", gpus="0")
    cluster.in_force = False
    guard = guarding(limit_usd=1.0)
    guard.turn()
    assert cluster.deleted == []
    cluster.in_force = True
    counts = []
    for _ in range(4):
        guard.turn()
        counts.append(len(cluster.deleted))
    assert counts == [20, 40, 50, 50]
    assert list(cluster.pods) == ["writer"]


def test_a_higher_limit_takes_the_quota_away_and_wakes_what_it_refused(cluster: Cluster, guarding: Any) -> None:
    cluster.pod("a", "n1")
    guarding(limit_usd=1.0).turn()
    refused = {"type": "ReplicaFailure", "message": f"exceeded quota: gpu, requested: requests.{GPU}=8"}
    other = {"type": "ReplicaFailure", "message": "exceeded quota: pods"}
    cluster.sets = {
        name: {"metadata": {"name": name}, "status": {"conditions": [one]}}
        for name, one in (("a", refused), ("b", other))
    }
    assert guarding(limit_usd=1.0).steps() == ["started", "paused"]  # the alert stays open
    guard = guarding(limit_usd=500.0)
    assert guard.steps() == ["started", "resumed"]
    assert cluster.quota is None
    assert [one["status"]["conditions"] for one in cluster.sets.values()] == [[], [other]]
    # The API server may still have known the quota when the controller looked.
    cluster.sets["a"]["status"]["conditions"] = [refused]
    assert guard.steps() == []
    assert cluster.sets["a"]["status"]["conditions"] == []


@pytest.mark.parametrize("terms", [{}, {"limit_usd": 1.0, "then": "warn"}])
def test_a_pause_that_a_former_guard_left_is_ended(cluster: Cluster, guarding: Any, terms: dict[str, Any]) -> None:
    cluster.pod("a", "n1")
    cluster.quota = {"metadata": {"name": QUOTA}}
    assert "resumed" in guarding(**terms).steps()
    assert cluster.quota is None


def test_until_pauses_at_its_moment_and_a_later_one_resumes(cluster: Cluster, guarding: Any) -> None:
    cluster.pod("a", "n1")
    guard = guarding(limit_usd=None, until="2027-01-15T09:00:00Z")
    assert guard.steps() == ["started"]
    cluster.passes(3600)
    (line,) = guard.turn()
    assert (line["step"], line["reason"], cluster.deleted) == ("paused", "until", ["a"])
    assert guarding(limit_usd=None, until="2027-02-01T00:00:00Z").steps() == ["started", "resumed"]


def test_who_chose_to_be_warned_is_only_warned(cluster: Cluster, guarding: Any) -> None:
    cluster.pod("a", "n1")
    guard = guarding(limit_usd=1.0, then="warn")
    lines = guard.turn()
    assert [line["step"] for line in lines] == ["started", "warned", "over"]
    assert lines[1]["share"] == 1.0
    assert lines[2]["reason"] == ""  # of a pause
    cluster.passes(30)
    assert guard.steps() == []
    assert (cluster.quota, cluster.deleted) == (None, [])


def test_a_passed_sum_is_said_every_five_minutes_until_it_is_not_passed(cluster: Cluster, guarding: Any) -> None:
    cluster.pod("a", "n1")
    guard = guarding(limit_usd=1.0, then="warn")
    guard.turn()
    over = []
    for _ in range(40):
        cluster.passes(30)
        over += [cluster.wall for step in guard.steps() if step == "over"]
    assert over == [300, 600, 900, 1200]
    assert guarding(limit_usd=1.0, then="warn").steps() == ["started", "over"]
    assert guarding(limit_usd=1e6, then="warn").steps() == ["started"]


@pytest.mark.parametrize(("choice", "steps"), [("warn", ["started"]), ("pause", ["started", "paused"])])
def test_a_missing_price_is_no_blindness_and_pauses_only_by_choice(
    guarding: Any, choice: str, steps: list[str]
) -> None:
    lines = guarding(on_unknown=choice, unknown=("A4 node",)).turn()
    assert [line["step"] for line in lines] == steps
    assert (lines[0]["unpriced"], lines[0]["severity"]) == (["A4 node"], "WARNING")
    (known,) = guarding(on_unknown="warn").turn()[:1]
    assert (known["unpriced"], known["severity"]) == ([], "INFO")


def test_an_outage_is_said_when_it_lasts_again_while_it_does_and_when_it_ends(cluster: Cluster, guarding: Any) -> None:
    guard = guarding()
    guard.turn()
    cluster.away = True
    told = []
    for _ in range(20):
        cluster.passes(60)
        told += [cluster.wall / 60 for _ in guard.steps()]
    assert told == [3, 8, 13, 18]
    cluster.away = False
    assert guard.steps() == ["started"]
    assert guard.steps() == []


def test_one_request_that_fails_is_not_worth_a_line(cluster: Cluster, guarding: Any) -> None:
    guard = guarding()
    guard.turn()
    for _ in range(4):
        cluster.away = True
        cluster.passes(100)
        assert guard.steps() == []
        cluster.away = False
        assert guard.steps() == []


def test_a_new_sum_ends_the_pause_of_the_former_though_its_first_look_fails(cluster: Cluster, guarding: Any) -> None:
    cluster.pod("a", "n1")
    guarding(limit_usd=1.0).turn()
    assert cluster.quota is not None
    cluster.refuses = {("GET", "pods")}
    guard = guarding(limit_usd=1000.0, since="2027-02-01T00:00:00Z")
    assert guard.steps() == []
    cluster.refuses = {("DELETE", "spending-pause")}
    assert guard.steps() == ["started"]
    cluster.refuses = set()
    assert guard.steps() == ["resumed"]
    assert cluster.quota is None


def test_a_pod_that_cannot_be_deleted_protects_no_other(cluster: Cluster, guarding: Any) -> None:
    for number in range(30):
        cluster.pod(f"p{number}", f"n{number}")
    cluster.refuses = {("DELETE", f"p{number}") for number in range(22)}
    guard = guarding(limit_usd=1.0)
    assert guard.steps() == ["started", "paused"]
    guard.turn()
    assert set(cluster.deleted) == {f"p{number}" for number in range(22, 30)}
    cluster.passes(150)
    (line,) = [line for line in guard.turn() if line["step"] == "blind"]
    assert "a webhook says no" in line["message"]
    assert "control plane" not in line["message"]
    assert cluster.kept["reason"] == "limit"
    assert cluster.kept["usd"] > 0


def test_a_quota_that_is_refused_is_said_and_the_sum_goes_on(cluster: Cluster, guarding: Any) -> None:
    cluster.pod("a", "n1")
    cluster.refuses = {("PATCH", "spending-pause")}
    guard = guarding(limit_usd=1.0)
    assert guard.steps() == ["started"]
    cluster.passes(3600)
    (line,) = [line for line in guard.turn() if line["step"] == "blind"]
    assert "a webhook says no" in line["message"]
    assert cluster.kept["usd"] == pytest.approx(41)
    assert cluster.deleted == []


def test_another_since_starts_a_new_sum(cluster: Cluster, guarding: Any) -> None:
    cluster.pod("a", "n1")
    guard = guarding()
    guard.turn()
    cluster.passes(3600)
    guard.turn()
    assert cluster.kept["usd"] == pytest.approx(41)
    guarding(since="2027-01-15T10:00:00Z").turn()
    assert cluster.kept["usd"] == 0


def at(cluster: Cluster, moment: str) -> None:
    """Set both clocks to a time, without anybody counting."""
    cluster.passes(datetime.fromisoformat(moment).timestamp() - cluster.date)


@pytest.mark.parametrize("restarted", [True, False])
def test_a_new_month_starts_a_new_sum_at_its_first_second(cluster: Cluster, guarding: Any, restarted: bool) -> None:
    at(cluster, "2027-01-31T22:00:00Z")
    cluster.pod("a", "n1")
    guard = guarding(every="month")
    guard.turn()
    assert (cluster.kept["since"], cluster.kept["from"]) == ("2027-01", "2027-01-31T22:00:00Z")
    cluster.passes(3600)
    guard.turn()
    cluster.passes(3 * 3600)  # two of them in February
    told = (guarding(every="month") if restarted else guard).turn()
    assert (cluster.kept["since"], cluster.kept["from"]) == ("2027-02", "2027-02-01T00:00:00Z")
    assert cluster.kept["usd"] == pytest.approx(2 * 41)
    assert [line["step"] for line in told if "new month" in line["message"]] == ["started"]
    assert any("$82.00" in line["message"] for line in told)


def test_a_new_month_ends_a_pause_by_the_limit(cluster: Cluster, guarding: Any) -> None:
    at(cluster, "2027-01-31T23:00:00Z")
    cluster.pod("a", "n1")
    guard = guarding(every="month", limit_usd=20.0)
    guard.turn()
    cluster.passes(1800)
    guard.turn()
    assert (cluster.kept["reason"], cluster.quota is None, cluster.deleted) == ("limit", False, ["a"])
    cluster.passes(1800)
    assert "resumed" in guard.steps()
    assert (cluster.kept["reason"], cluster.quota) == ("", None)
    cluster.passes(30)
    assert guard.steps() == []


def test_a_day_without_a_guard_over_the_end_of_a_month_is_not_believed(cluster: Cluster, guarding: Any) -> None:
    at(cluster, "2027-01-30T00:00:00Z")
    cluster.pod("a", "n1")
    guarding(every="month", limit_usd=None).turn()
    cluster.passes(5 * 86_400)
    guarding(every="month", limit_usd=None).turn()
    # 24 hours are counted, all of them in the new month, whose first days nobody counted.
    assert (cluster.kept["since"], cluster.kept["usd"]) == ("2027-02", pytest.approx(24 * 41))
    assert cluster.kept["unknown"]


def test_a_clock_that_jumps_begins_no_month_and_none_comes_back(cluster: Cluster, guarding: Any) -> None:
    at(cluster, "2027-01-10T00:00:00Z")
    cluster.pod("a", "n1")
    guard = guarding(every="month")
    guard.turn()
    for jump in (40 * 86_400, -40 * 86_400):
        cluster.server += jump
        cluster.passes(1800)
        assert guard.steps() == ["blind"]
    assert (cluster.kept["since"], cluster.kept["usd"]) == ("2027-01", pytest.approx(41))
    at(cluster, "2027-02-01T00:00:30Z")
    guard.turn()
    cluster.server -= 20 * 86_400
    guard.turn()
    cluster.passes(30)
    guard.turn()
    assert cluster.kept["since"] == "2027-02"


@pytest.mark.parametrize(
    ("terms", "name"),
    [
        ({}, None),
        ({"since": "2026-11-01T00:00:00Z"}, "2026-11-01T00:00:00Z"),
        ({"every": "month"}, "2027-01"),
        ({"every": "month", "since": "2026-11-01T00:00:00Z"}, "2026-11-01T00:00:00Z 2027-01"),
    ],
)
def test_a_sum_is_named_by_its_start_and_its_month(
    cluster: Cluster, guarding: Any, terms: Any, name: str | None
) -> None:
    at(cluster, "2027-01-31T23:59:59Z")
    guarding(**terms).turn()
    assert cluster.kept["since"] == name


def test_of_two_guards_the_later_takes_up_what_the_other_wrote(cluster: Cluster, guarding: Any) -> None:
    cluster.pod("a", "n1")
    one, two = guarding(), guarding()
    one.turn()
    two.turn()
    for _ in range(10):
        cluster.passes(360)
        one.turn()
        two.turn()
    cluster.passes(1)
    one.turn()
    one.turn()
    assert cluster.kept["usd"] == pytest.approx(41, rel=0.01)


SPOILT = {
    "not JSON": "{",
    "no more": None,
    "half": {"usd": 20.0},
    "nothing": {"usd": 0.0},
    "another sum": {"since": "2020-01-01T00:00:00Z"},
    "negative": {"usd": -1e6},
}


@pytest.mark.parametrize("how", SPOILT)
def test_a_sum_never_falls_within_a_process_and_is_written_again(cluster: Cluster, guarding: Any, how: str) -> None:
    cluster.pod("a", "n1")
    guard = guarding()
    guard.turn()
    cluster.passes(3600)
    guard.turn()
    spoilt = SPOILT[how]
    cluster.spoil(json.dumps({**cluster.kept, **spoilt}) if isinstance(spoilt, dict) else spoilt)
    cluster.passes(30)
    assert guard.steps() == []
    assert guard.steps() == ["blind"]
    assert cluster.kept["usd"] == pytest.approx(41 + 41 * 30 / 3600)
    assert (cluster.kept["since"], cluster.kept["unknown"]) == (None, "")
    cluster.passes(30)
    assert guard.steps() == []


def test_a_deleted_sum_is_made_again_and_the_fleet_is_paused_meanwhile(cluster: Cluster, guarding: Any) -> None:
    cluster.pod("a", "n1")
    guard = guarding(limit_usd=100.0)
    guard.turn()
    cluster.passes(3600)
    cluster.spoil(None, is_there=False)
    cluster.refuses = {("GET", "spending"), ("PATCH", "spending")}
    cluster.passes(3 * 3600)
    assert "paused" in guard.steps()
    assert (cluster.deleted, cluster.is_there) == (["a"], False)
    cluster.refuses = set()
    cluster.passes(30)
    guard.turn()
    guard.turn()
    assert cluster.kept["usd"] == pytest.approx(4 * 41, abs=1)
    assert cluster.kept["reason"] == "limit"


def test_a_new_process_that_cannot_read_the_sum_writes_over_nothing_and_may_still_pause(
    cluster: Cluster, guarding: Any
) -> None:
    cluster.pod("a", "n1")
    guarding().turn()
    cluster.refuses = {("GET", "spending")}
    guard = guarding(limit_usd=100.0)
    stored = cluster.state
    for _ in range(6):
        cluster.passes(1800)
        guard.turn()
    assert (cluster.state, cluster.deleted) == (stored, ["a"])
    cluster.refuses = set()
    guard.turn()
    assert cluster.kept["usd"] == pytest.approx(41 * 1.5 + 1.5, abs=60)
    assert cluster.kept["reason"] == "limit"


def test_a_sum_that_cannot_be_read_for_long_is_unknown(cluster: Cluster, guarding: Any) -> None:
    cluster.pod("a", "n1")
    cluster.refuses = {("GET", "spending")}
    guard = guarding(on_unknown="pause")
    for _ in range(3):
        assert "paused" not in guard.steps()
        cluster.passes(60)
    assert "paused" in guard.steps() + guard.steps()


def test_a_pause_ends_only_once_the_sum_is_stored(cluster: Cluster, guarding: Any) -> None:
    cluster.pod("a", "n1")
    guarding(limit_usd=1.0).turn()
    guard = guarding(limit_usd=500.0)
    cluster.refuses = {("GET", "spending")}
    guard.turn()
    assert cluster.quota is not None
    cluster.refuses = set()
    assert guard.steps() == ["resumed"]
    assert cluster.quota is None


def test_a_new_process_counts_from_a_spoilt_sum_as_unknown(cluster: Cluster, guarding: Any) -> None:
    guarding().turn()
    cluster.spoil("{")
    assert guarding(on_unknown="pause").steps() == ["blind", "started", "paused"]
    cluster.spoil(None, is_there=False)
    assert guarding(on_unknown="warn").steps() == ["blind", "started", "resumed"]
    assert cluster.kept["unknown"]


STORED: dict[str, Any] = {
    "usd": 748.0,
    "counted": 50.0,
    "since": None,
    "from": "2027-01-01T00:00:00Z",
    "nodes": {"n1": [50.0, True]},
}
STORED |= {
    "warned": 0.5,
    "reason": "",
    "owed": 0.0,
    "unknown": "",
    "unpriced": [],
    "wakeUntil": 0.0,
    "at": START - 3600,
}
STORED |= {"usdPerHour": 41.0}


def test_a_sum_reads_what_it_writes() -> None:
    found = Sum.read(json.dumps(STORED))
    assert Sum.read(found.text()) == found
    assert json.loads(found.text()) == STORED


@each_row("name", STORED)
def test_no_value_of_a_stored_sum_is_believed(name: str) -> None:
    with pytest.raises(DamagedSumError):
        Sum.read(json.dumps({key: value for key, value in STORED.items() if key != name}))
    lists, truths = ([1], {"n1": [1e300, True]}, {"n1": [1, 1]}, {"n1": 3}), (True, False)
    for wrong in (-1, 1e300, float("nan"), [], {}, "much", None, "x" * 10**6, *lists, *truths):
        text = json.dumps({**STORED, name: wrong})
        try:
            found = Sum.read(text)
        except DamagedSumError as error:
            assert error.name == name
            assert len(str(error)) < 250
        else:
            assert json.loads(found.text())[name] == wrong


def asks(**amounts: str) -> dict[str, Any]:
    return {"resources": {"limits": {GPU: "8"}, **amounts}}


HIDDEN: dict[str, dict[str, Any]] = {
    "sidecar": {"containers": [{}], "initContainers": [{**asks(), "restartPolicy": "Always"}]},
    "init container": {"containers": [{}], "initContainers": [asks()]},
    "second container": {"containers": [{}, asks()]},
    "requests": {"containers": [{"resources": {"requests": {GPU: "1"}}}]},
    "slice": {"containers": [{"resources": {"limits": {"nvidia.com/mig-1g.10gb": "1"}}}]},
    "TPU": {"containers": [{"resources": {"limits": {"google.com/tpu": "4"}}}]},
    "claim": {"containers": [{}], "resourceClaims": [{"name": "gpu"}]},
    "whole pod": {"containers": [{}], "resources": {"limits": {GPU: "1"}}},
}


@pytest.mark.parametrize("how", HIDDEN)
def test_a_pod_hides_no_accelerator(cluster: Cluster, guarding: Any, how: str) -> None:
    cluster.pod("a", "n1", **HIDDEN[how])
    guard = guarding(limit_usd=100.0)
    guard.turn()
    assert cluster.kept["usdPerHour"] == 41
    cluster.passes(3 * 3600)
    guard.turn()
    assert cluster.deleted == ["a"]


def test_a_pod_without_gpus_that_stays_on_a_machine_keeps_it_in_the_sum_and_goes_too(
    cluster: Cluster, guarding: Any
) -> None:
    cluster.pod("a", "n1")
    cluster.pod("stays", "n1", gpus="0")
    guard = guarding(limit_usd=200.0)
    guard.turn()
    del cluster.pods["a"]
    while cluster.quota is None:
        cluster.passes(600)
        guard.turn()
    guard.turn()
    assert cluster.deleted == ["stays"]
    assert cluster.kept["usd"] > 150


def test_pods_with_gpus_are_deleted_first(cluster: Cluster, guarding: Any) -> None:
    cluster.pod("z", "n1")
    guard = guarding(limit_usd=100.0)
    guard.turn()
    for number in range(30):
        cluster.pod(f"a{number}", "n1", gpus="0")
    cluster.pods["z"] = cluster.pods.pop("z")
    cluster.passes(3 * 3600)
    guard.turn()
    assert (cluster.deleted[0], len(cluster.deleted)) == ("z", 20)


def test_a_pod_that_asks_for_years_to_end_gets_ten_minutes(cluster: Cluster, guarding: Any) -> None:
    cluster.pod("slow", "n1", terminationGracePeriodSeconds=10**7)
    cluster.pod("ending", "n2")
    cluster.pods["ending"]["metadata"] |= {"deletionTimestamp": "2027-01-01T00:00:00Z"}
    cluster.pods["ending"]["metadata"] |= {"deletionGracePeriodSeconds": 10**7}
    cluster.pod("usual", "n3", terminationGracePeriodSeconds=30)
    cluster.pod("ends", "n4")
    cluster.pods["ends"]["metadata"] |= {"deletionTimestamp": "2027-01-01T00:00:00Z", "deletionGracePeriodSeconds": 30}
    guarding(limit_usd=1.0).turn()
    assert {name: options.get("gracePeriodSeconds") for name, options in cluster.options.items()} == {
        "slow": 600,
        "ending": 600,
        "usual": None,
    }


def test_a_quota_with_a_scope_is_replaced(cluster: Cluster, guarding: Any) -> None:
    cluster.pod("a", "n1")
    cluster.quota = {"spec": {"scopes": ["BestEffort"]}}
    guard = guarding(limit_usd=1.0)
    guard.turn()
    assert cluster.deleted == []
    guard.turn()
    assert cluster.quota is not None
    assert (set(cluster.quota["spec"]), cluster.deleted) == ({"hard"}, ["a"])


def test_a_pause_does_not_need_an_owner(cluster: Cluster, guarding: Any) -> None:
    cluster.pod("a", "n1")
    cluster.refuses = {("GET", "spending-guard")}
    guarding(limit_usd=1.0).turn()
    assert cluster.deleted == ["a"]


class Lists(BaseHTTPRequestHandler):
    """A list of pods in pages, as an API server gives it."""

    pods: list[Any]
    asked: list[int]

    def do_GET(self) -> None:
        query = {name: values[0] for name, values in parse_qs(urlsplit(self.path).query).items()}
        at, size = int(query.get("continue", 0)), int(query["limit"])
        self.asked.append(size)
        assert query["fieldSelector"] == "status.phase!=Succeeded,status.phase!=Failed"
        more = {"continue": str(at + size)} if at + size < len(self.pods) else {}
        body = json.dumps({"metadata": more, "items": self.pods[at : at + size]}).encode()
        self.send_response_only(200)
        self.send_header("Date", formatdate(START, usegmt=True))
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        try:
            self.wfile.write(body)
        except OSError:  # The guard has read enough.
            self.close_connection = True

    def log_message(self, *_: Any) -> None:
        """Log nothing."""


def test_pods_are_read_in_pages_that_shrink_with_their_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "token").write_text("t")
    monkeypatch.setattr(paging, "PAGE_BYTES", 20_000)
    Lists.pods = [{"metadata": {"name": f"p{number}"}} for number in range(250)]
    Lists.pods[120]["metadata"]["annotations"] = {"large": "x" * 50_000}
    Lists.asked = []
    server = ThreadingHTTPServer(("127.0.0.1", 0), Lists)
    Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    try:
        api = Api(f"http://127.0.0.1:{server.server_address[1]}", tmp_path)
        found = [one["metadata"]["name"] for one in api.each(f"/pods?{program._NOT_OVER}")]
    finally:
        server.shutdown()
        server.server_close()
    assert found == [f"p{number}" for number in range(250)]
    assert (Lists.asked[0], Lists.asked[-1], api.date) == (100, 1, START)


def test_what_is_shipped_is_the_program() -> None:
    code = shipped()
    space: dict[str, Any] = {"__name__": __name__}
    exec(compile(code, "guard", "exec"), space)
    assert space["CLOSED"] == program.CLOSED
    assert space["Sum"].read(json.dumps(STORED)).usd == STORED["usd"]
    assert '"""' not in code
    assert "workloads" not in code


ON_RUNGS = {
    "usd_per_machine_hour": 90.0,
    "usd_per_rung_hour": {"reservation": 90.0, "flex-start": 64.0, "spot": 34.0},
    "usd_per_reserved_hour": 88.0,
}
LABELS = {
    "reservation": {"cloud.google.com/reservation-name": "block", "cloud.google.com/gke-provisioning": "standard"},
    "flex-start": {"cloud.google.com/gke-flex-start": "true"},
    "spot": {"cloud.google.com/gke-spot": "true"},
    "": {"cloud.google.com/gke-spot": "false"},
}


@pytest.mark.parametrize(
    ("reserved", "rungs", "expected"),
    [
        pytest.param(0, ("spot",), 34, id="Spot"),
        pytest.param(1, ("reservation", "flex-start", "spot"), 90 + 64 + 34, id="all three"),
        pytest.param(0, ("",), 90, id="a node of no rung is the dearest"),
        pytest.param(2, ("reservation", "spot"), 90 + 88 + 34, id="a reserved node that is not used"),
        pytest.param(2, (), 2 * 88, id="a reservation that no pod uses"),
        pytest.param(1, ("reservation", "reservation"), 2 * 90, id="more reserved nodes than stated"),
    ],
)
def test_each_machine_of_a_ladder_counts_at_its_rungs_price(
    cluster: Cluster, guarding: Any, reserved: int, rungs: tuple[str, ...], expected: float
) -> None:
    for number, rung in enumerate(rungs):
        cluster.pod(f"p{number}", f"n{number}")
        cluster.nodes[f"n{number}"] = {"metadata": {"labels": LABELS[rung]}}
    guard = guarding(**ON_RUNGS, reserved_machines=reserved)
    guard.turn()
    cluster.passes(3600)
    guard.turn()
    assert cluster.kept["usdPerHour"] == pytest.approx(1 + expected)
    assert cluster.kept["usd"] == pytest.approx(1 + expected)


def test_a_ladder_that_climbs_is_paid_on_each_rung_as_long_as_it_was_there(cluster: Cluster, guarding: Any) -> None:
    cluster.pod("a", "spot")
    cluster.nodes = {name: {"metadata": {"labels": LABELS[name]}} for name in ("spot", "reservation")}
    guard = guarding(**ON_RUNGS, reserved_machines=1)
    guard.turn()
    cluster.passes(3600)
    guard.turn()
    cluster.pods.clear()
    cluster.pod("b", "reservation")
    del cluster.nodes["spot"]
    for _ in range(60):
        cluster.passes(60)
        guard.turn()
    # The new machine may have come right after the last count; the former has its idle minutes.
    assert cluster.kept["usd"] == pytest.approx((1 + 34 + 88) + (1 + 34 * 11 / 60 + 90))


@pytest.mark.parametrize("refused", [True, False])
def test_a_machine_whose_rung_cannot_be_read_is_the_dearest(cluster: Cluster, guarding: Any, refused: bool) -> None:
    cluster.pod("a", "n1")
    cluster.refuses = {("GET", "n1")} if refused else set()
    guard = guarding(**ON_RUNGS, reserved_machines=0)
    guard.turn()
    cluster.passes(3600)
    lines = guard.turn()
    assert cluster.kept["usd"] == pytest.approx(1 + 90)
    assert [line["step"] for line in lines] == (["blind"] if refused else [])


def test_where_all_machines_cost_the_same_no_node_is_read(cluster: Cluster, guarding: Any) -> None:
    cluster.pod("a", "n1")
    cluster.refuses = {("GET", "n1")}
    guard = guarding()
    guard.turn()
    cluster.passes(3600)
    assert guard.steps() == []
