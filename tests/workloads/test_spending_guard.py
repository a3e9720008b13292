"""The spending guard's program, against an API in memory or over HTTP, and on a clock that tests move."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from email.message import Message
from email.utils import formatdate
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

import pytest

from facts.signals import logs
from tests.support.rows import each_row
from tests.support.simulators.local_server import Answer, Request, served
from workloads.spending import guard as program
from workloads.spending.api import Api
from workloads.spending.guard import CLOSED, QUOTA, Guard
from workloads.spending.spending import program as shipped
from workloads.spending.total import Sum, Terms
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
    usd_per_hour_fixed=1.0,
    usd_per_machine_hour=40.0,
    usd_per_priority_hour={},
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
        self.nodes: dict[str, dict[str, Any]] = {}
        self.state: str | None = None
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
            case "GET", ["vllm-spending", "configmaps", "spending"]:
                return {} if self.state is None else {"data": {"state": self.state}}
            case "PATCH", ["vllm-spending", "configmaps", "spending"]:
                self.state = body["data"]["state"]
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

    @property
    def kept(self) -> dict[str, Any]:
        return dict(json.loads(self.state or "{}"))


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    """With a pod `a` on the machine `n1`."""
    made = Cluster()
    made.pod("a", "n1")
    monkeypatch.setattr(time, "monotonic", lambda: made.wall)
    return made


class Watched:
    """A guard that takes turns, and the lines it has written."""

    def __init__(self, cluster: Cluster, capsys: pytest.CaptureFixture[str], terms: Mapping[str, Any]) -> None:
        self.guard = Guard(cluster, replace(TERMS, **terms))  # type: ignore[arg-type]
        self._cluster, self._capsys = cluster, capsys
        self.rates: list[dict[str, Any]] = []
        """Lines with what an hour costs."""

    def turn(self, after: float = 0.0) -> list[dict[str, Any]]:
        """What it writes in a turn, after so many seconds."""
        self._cluster.passes(after)
        try:
            self.guard.turn()
        except OSError as error:
            self.guard.fail(error)
        lines = [json.loads(line) for line in self._capsys.readouterr().out.splitlines()]
        self.rates += [line for line in lines if line["event"] == "spending-rate"]
        return [line for line in lines if line["event"] == "spending"]

    def steps(self, after: float = 0.0) -> list[str]:
        return [line["step"] for line in self.turn(after)]

    def counting(self) -> Watched:
        """The same after its first turn."""
        self.turn()
        return self


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
    guard.turn(after=1800)
    assert cluster.kept["usd"] == pytest.approx((2 * 40 + 1) / 2)
    assert cluster.kept["usd_per_hour"] == 81


def test_it_logs_once_a_minute_what_an_hour_of_the_machines_costs(cluster: Cluster, guarding: Any) -> None:
    labels = {"r1": {"cloud.google.com/reservation-name": "block-7"}, "s1": {"cloud.google.com/gke-spot": "true"}}
    cluster.nodes = {name: {"metadata": {"labels": own}} for name, own in labels.items()}
    cluster.pod("a", "r1")
    guard = guarding(
        usd_per_priority_hour={"reservation": 90.0, "spot": 35.0}, reserved_machines=2, usd_per_reserved_hour=88.0
    )
    for _ in range(7):  # turns of 31 seconds
        guard.turn()
        cluster.passes(31)
    # The second reserved machine stands idle; what is fixed is left out.
    assert [line["machinesUsdPerHour"] for line in guard.rates] == [178.0] * 4
    assert (program.RATE_SECONDS, guard.rates[0]["event"]) == (logs.RATE_SECONDS, logs.RATE_EVENT)
    cluster.pod("b", "s1")
    guard.turn(after=7200)
    guard.turn(after=31)
    # After two hours' silence it says the minute that is, and not those that were.
    assert [line["machinesUsdPerHour"] for line in guard.rates[4:]] == [213.0]
    assert guard.rates[-1]["usdPerHour"] == 214.0


def test_a_machine_is_paid_for_its_idle_minutes_after_its_pod(cluster: Cluster, guarding: Any) -> None:
    guard = guarding().counting()
    cluster.pods.clear()
    for _ in range(30):
        guard.turn(after=60)
    # Its last minute in full, as nobody saw when the pod went, and ten more.
    assert cluster.kept["usd"] == pytest.approx(40 * 11 / 60 + 0.5)


@pytest.mark.parametrize("restarted", [True, False])
def test_a_gap_counts_at_the_larger_size_of_its_ends(cluster: Cluster, guarding: Any, restarted: bool) -> None:
    guard = guarding().counting()
    cluster.away = True
    assert guard.steps(after=1800) == []
    assert guard.steps(after=1800) == ["blind"]
    cluster.away = False
    cluster.pods.clear()
    cluster.pod("b", "n2")
    (guarding() if restarted else guard).turn()
    assert cluster.kept["usd"] == pytest.approx(2 * 40 + 1)


def test_each_share_is_warned_of_once_and_again_after_a_renewal(guarding: Any) -> None:
    guard = guarding(limit_usd=100.0).counting()
    told: list[float] = []
    for _ in range(20):
        told += [line["share"] for line in guard.turn(after=300) if line["step"] == "warned"]
    assert told == [0.5]
    assert guarding(limit_usd=100.0).steps() == ["started"]
    assert guarding(limit_usd=1000.0).steps() == ["started"]
    assert guarding(limit_usd=100.0).steps() == ["started", "warned"]


def test_it_pauses_before_the_limit_by_what_idle_machines_still_cost(cluster: Cluster, guarding: Any) -> None:
    guard = guarding(limit_usd=100.0).counting()
    while cluster.quota is None:
        guard.turn(after=30)
    assert cluster.deleted == ["a"]
    assert cluster.quota["spec"]["hard"] == CLOSED
    owner = cluster.quota["metadata"]["ownerReferences"][0]
    assert (owner["kind"], owner["name"], owner["uid"]) == ("Role", "spending-guard", "u")
    steps: list[str] = []
    for _ in range(40):
        steps += guard.steps(after=30)
    # Said again every five minutes of these twenty.
    assert [step for step in steps if step != "paused"] == ["warned"]
    assert steps.count("paused") == 4
    assert cluster.kept["usd"] == pytest.approx(100, abs=1)
    assert cluster.quota is not None


def test_no_pod_goes_before_the_quota_is_in_force_and_none_keeps_another(cluster: Cluster, guarding: Any) -> None:
    cluster.pods.clear()
    for number in range(5):
        cluster.pod(f"p{number}", f"n{number}")
    cluster.pod("writer", "n60", gpus="0")
    cluster.in_force, cluster.refuses = False, {("DELETE", "p0")}
    guard = guarding(limit_usd=1.0).counting()
    assert cluster.deleted == []
    cluster.in_force = True
    guard.turn()
    assert cluster.deleted == [f"p{number}" for number in range(1, 5)]
    assert cluster.kept["reason"] == "limit"
    assert "blind" in guard.steps(after=150)
    assert cluster.kept["usd"] > 0
    cluster.refuses = set()
    guard.turn()
    assert list(cluster.pods) == ["writer"]


def test_a_quota_that_is_refused_is_said_and_the_sum_goes_on(cluster: Cluster, guarding: Any) -> None:
    cluster.refuses = {("PATCH", "spending-pause")}
    guard = guarding(limit_usd=1.0)
    assert guard.steps() == ["started"]
    (line,) = [line for line in guard.turn(after=3600) if line["step"] == "blind"]
    assert "a webhook says no" in line["message"]
    assert (cluster.kept["usd"], cluster.deleted) == (pytest.approx(41), [])


def test_a_higher_limit_takes_the_quota_away(cluster: Cluster, guarding: Any) -> None:
    guarding(limit_usd=1.0).turn()
    assert guarding(limit_usd=1.0).steps() == ["started", "paused"]  # the alert stays open
    guard = guarding(limit_usd=500.0)
    assert guard.steps() == ["started", "resumed"]
    assert cluster.quota is None
    assert guard.steps() == []


def test_what_has_no_price_is_told(guarding: Any) -> None:
    (line,) = guarding(unknown=("A4 node",)).turn()
    assert (line["unpriced"], line["severity"]) == (["A4 node"], "WARNING")


def test_an_outage_is_said_when_it_lasts_and_again_while_it_does(cluster: Cluster, guarding: Any) -> None:
    guard = guarding().counting()
    cluster.away = True
    told = []
    for _ in range(20):
        told += [cluster.wall / 60 for _ in guard.steps(after=60)]
    assert told == [3, 8, 13, 18]
    cluster.away = False
    assert guard.steps() == []


@pytest.mark.parametrize("terms", [{}, {"limit_usd": 1.0, "then": "warn"}])
def test_a_pause_that_a_former_guard_left_is_ended(cluster: Cluster, guarding: Any, terms: dict[str, Any]) -> None:
    cluster.quota = {"metadata": {"name": QUOTA}}
    assert "resumed" in guarding(**terms).steps()
    assert cluster.quota is None


def test_until_pauses_at_its_moment_and_a_later_one_resumes(cluster: Cluster, guarding: Any) -> None:
    guard = guarding(limit_usd=None, until="2027-01-15T09:00:00Z")
    assert guard.steps() == ["started"]
    (line,) = guard.turn(after=3600)
    assert (line["step"], line["reason"], cluster.deleted) == ("paused", "until", ["a"])
    assert guarding(limit_usd=None, until="2027-02-01T00:00:00Z").steps() == ["started", "resumed"]


def test_who_chose_to_be_warned_is_only_warned(cluster: Cluster, guarding: Any) -> None:
    guard = guarding(limit_usd=1.0, then="warn")
    lines = guard.turn()
    assert [line["step"] for line in lines] == ["started", "warned", "over"]
    assert lines[1]["share"] == 1.0
    assert lines[2]["reason"] == ""  # of a pause
    assert guard.steps(after=30) == []
    assert (cluster.quota, cluster.deleted) == (None, [])


def test_a_passed_sum_is_said_every_five_minutes_until_it_is_not_passed(cluster: Cluster, guarding: Any) -> None:
    guard = guarding(limit_usd=1.0, then="warn").counting()
    over = []
    for _ in range(40):
        over += [cluster.wall for step in guard.steps(after=30) if step == "over"]
    assert over == [300, 600, 900, 1200]
    assert guarding(limit_usd=1.0, then="warn").steps() == ["started", "over"]
    assert guarding(limit_usd=1e6, then="warn").steps() == ["started"]


def test_one_request_that_fails_is_not_worth_a_line(cluster: Cluster, guarding: Any) -> None:
    guard = guarding().counting()
    for _ in range(4):
        cluster.away = True
        assert guard.steps(after=100) == []
        cluster.away = False
        assert guard.steps() == []


def at(cluster: Cluster, moment: str) -> None:
    """Set both clocks to a time, without anybody counting."""
    cluster.passes(datetime.fromisoformat(moment).timestamp() - cluster.date)


def test_a_new_month_ends_a_pause_by_the_limit(cluster: Cluster, guarding: Any) -> None:
    at(cluster, "2027-01-31T23:00:00Z")
    guard = guarding(every="month", limit_usd=20.0).counting()
    guard.turn(after=1800)
    assert (cluster.kept["reason"], cluster.quota is None, cluster.deleted) == ("limit", False, ["a"])
    assert "resumed" in guard.steps(after=1800)
    assert (cluster.kept["reason"], cluster.quota) == ("", None)
    assert guard.steps(after=30) == []


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


STORED: dict[str, Any] = {
    "since": None,
    "began": "2027-01-01T00:00:00Z",
    "usd": 748.0,
    "usd_per_hour": 41.0,
    "at": START - 3600,
    "nodes": {"n1": 0.0},
    "warned": 0.5,
    "reason": "",
    "owed": 0.0,
    "unpriced": [],
}


@each_row(
    ("state", "usd"),
    [
        (STORED, 748 + 41),
        (
            {**STORED, "at": START - 400 * 86_400, "nodes": {}},
            748 + 24 * 41,
        ),  # a clock that was wrong, or nobody counted
        ({**STORED, "at": START + 400 * 86_400}, 748),
        ({**STORED, "since": "2026-11-01T00:00:00Z"}, 0),
        (None, 0),
        ("", 0),
        ("[" * 100_000, 0),
        ({}, 0),
        ({**STORED, "usd": float("nan")}, 0),
        ({**STORED, "usd": -1}, 0),
        ({**STORED, "at": 1e300}, 0),
        ({**STORED, "nodes": {"n1": "x"}}, 0),
        ({**STORED, "nodes": []}, 0),
        ({**STORED, "reason": "because"}, 0),
        ({**STORED, "began": "\x1b[2J"}, 0),
        ({**STORED, "more": 1}, 0),
    ],
)
def test_a_process_goes_on_from_a_stored_sum_and_begins_anew_without_one(
    cluster: Cluster, guarding: Any, state: Any, usd: float
) -> None:
    cluster.state = state if state is None or isinstance(state, str) else json.dumps(state)
    guard = guarding(limit_usd=None)
    assert "started" in guard.steps()
    assert cluster.kept["usd"] == pytest.approx(usd)
    # Whatever was stored: it counts from here, and writes its own.
    guard.turn(after=3600)
    assert cluster.kept["usd"] == pytest.approx(usd + 41)
    assert json.loads(Sum.read(json.dumps(cluster.kept)).text()) == cluster.kept


def test_another_since_starts_a_new_sum_and_a_month_its_own(cluster: Cluster, guarding: Any) -> None:
    at(cluster, "2027-01-31T22:00:00Z")
    guard = guarding(every="month").counting()
    guard.turn(after=3600)
    assert (cluster.kept["since"], cluster.kept["usd"]) == ("2027-01", pytest.approx(41))
    told = guard.turn(after=3600)
    assert (cluster.kept["since"], cluster.kept["began"], cluster.kept["usd"]) == ("2027-02", "2027-02-01T00:00:00Z", 0)
    assert [line["step"] for line in told if "$82.00" in line["message"]] == ["started"]
    guard.turn(after=3600)
    assert cluster.kept["usd"] == pytest.approx(41)


def test_a_sum_that_cannot_be_read_now_is_not_replaced(cluster: Cluster, guarding: Any) -> None:
    cluster.state, cluster.refuses = json.dumps(STORED), {("GET", "vllm-spending/spending")}
    guard = guarding()
    assert guard.steps() == []
    assert cluster.kept == STORED
    cluster.refuses = set()
    assert guard.steps() == ["started"]
    assert cluster.kept["usd"] == pytest.approx(748 + 41)


@pytest.mark.parametrize(
    "refused", [("PATCH", "vllm-spending/spending"), ("GET", "spending-guard")], ids=["storage", "owner"]
)
def test_a_pause_does_not_need(cluster: Cluster, guarding: Any, refused: tuple[str, str]) -> None:
    cluster.refuses = {refused}
    guarding(limit_usd=1.0).turn()
    assert cluster.deleted == ["a"]


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
    guard = guarding(limit_usd=100.0).counting()
    assert cluster.kept["usd_per_hour"] == 41
    guard.turn(after=3 * 3600)
    assert cluster.deleted == ["a"]


def test_a_pod_without_gpus_that_stays_on_a_machine_keeps_it_in_the_sum_and_goes_too(
    cluster: Cluster, guarding: Any
) -> None:
    cluster.pod("stays", "n1", gpus="0")
    guard = guarding(limit_usd=200.0).counting()
    del cluster.pods["a"]
    while cluster.quota is None:
        guard.turn(after=600)
    guard.turn()
    assert cluster.deleted == ["stays"]
    assert cluster.kept["usd"] > 150


def test_a_pod_that_asks_for_years_to_end_gets_ten_minutes(cluster: Cluster, guarding: Any) -> None:
    cluster.pods.clear()
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


def test_pods_are_read_in_pages(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("t")
    pods = [{"metadata": {"name": f"p{number}"}} for number in range(250)]
    asked = []

    def page(request: Request) -> Answer:
        begin, size = int(request.query.get("continue", 0)), int(request.query["limit"])
        asked.append(size)
        assert request.query["fieldSelector"] == "status.phase!=Succeeded,status.phase!=Failed"
        more = {"continue": str(begin + size)} if begin + size < len(pods) else {}
        body = {"metadata": more, "items": pods[begin : begin + size]}
        return Answer(200, json.dumps(body).encode(), {"Date": formatdate(START, usegmt=True)})

    with served(page) as port:
        api = Api(f"http://127.0.0.1:{port}", tmp_path)
        assert list(api.each(f"/pods?{program._NOT_OVER}")) == pods
    assert (asked, api.date) == ([100, 100, 100], START)


def test_what_is_shipped_is_the_program() -> None:
    code = shipped()
    space: dict[str, Any] = {"__name__": __name__}
    exec(compile(code, "guard", "exec"), space)
    assert space["CLOSED"] == program.CLOSED
    assert space["Sum"].read(json.dumps(STORED)).usd == STORED["usd"]
    assert '"""' not in code
    assert "workloads" not in code


ON_PRIORITIES = {
    "usd_per_machine_hour": 90.0,
    "usd_per_priority_hour": {"reservation": 90.0, "flex-start": 64.0, "spot": 34.0},
    "usd_per_reserved_hour": 88.0,
}
LABELS = {
    "reservation": {"cloud.google.com/reservation-name": "block", "cloud.google.com/gke-provisioning": "standard"},
    "flex-start": {"cloud.google.com/gke-flex-start": "true"},
    "spot": {"cloud.google.com/gke-spot": "true"},
    "": {"cloud.google.com/gke-spot": "false"},
}


@pytest.mark.parametrize(
    ("reserved", "priorities", "expected"),
    [
        pytest.param(0, ("spot",), 34, id="Spot"),
        pytest.param(1, ("reservation", "flex-start", "spot"), 90 + 64 + 34, id="all three"),
        pytest.param(0, ("",), 90, id="a node of no priority is the dearest"),
        pytest.param(0, ("refused",), 90, id="and one that cannot be read"),
        pytest.param(0, ("gone",), 90, id="or is no more"),
        pytest.param(2, ("reservation", "spot"), 90 + 88 + 34, id="a reserved node that is not used"),
        pytest.param(2, (), 2 * 88, id="a reservation that no pod uses"),
        pytest.param(1, ("reservation", "reservation"), 2 * 90, id="more reserved nodes than stated"),
    ],
)
def test_each_machine_of_a_compute_class_counts_at_the_price_of_its_priority(
    cluster: Cluster, guarding: Any, reserved: int, priorities: tuple[str, ...], expected: float
) -> None:
    cluster.pods.clear()
    cluster.refuses = {("GET", "n0")} if "refused" in priorities else set()
    for number, priority in enumerate(priorities):
        cluster.pod(f"p{number}", f"n{number}")
        if priority in LABELS:
            cluster.nodes[f"n{number}"] = {"metadata": {"labels": LABELS[priority]}}
    guard = guarding(**ON_PRIORITIES, reserved_machines=reserved).counting()
    guard.turn(after=3600)
    assert cluster.kept["usd_per_hour"] == pytest.approx(1 + expected)
    assert cluster.kept["usd"] == pytest.approx(1 + expected)


def test_a_fleet_that_returns_to_earlier_priorities_is_paid_at_each_as_long_as_it_was_there(
    cluster: Cluster, guarding: Any
) -> None:
    cluster.pod("a", "spot")
    cluster.nodes = {name: {"metadata": {"labels": LABELS[name]}} for name in ("spot", "reservation")}
    guard = guarding(**ON_PRIORITIES, reserved_machines=1).counting()
    guard.turn(after=3600)
    cluster.pods.clear()
    cluster.pod("b", "reservation")
    del cluster.nodes["spot"]
    for _ in range(60):
        guard.turn(after=60)
    # The new machine may have come right after the last count; the former has its idle minutes.
    assert cluster.kept["usd"] == pytest.approx((1 + 34 + 88) + (1 + 34 * 11 / 60 + 90))


def test_where_all_machines_cost_the_same_no_node_is_read(cluster: Cluster, guarding: Any) -> None:
    cluster.refuses = {("GET", "n1")}
    guard = guarding().counting()
    assert guard.steps(after=3600) == []
