"""The spending guard's program, against an API in memory and on a clock that tests move."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from email.message import Message
from typing import Any
from urllib.error import HTTPError

import pytest

from workloads.pod_programs import python_program
from workloads.spending import guard as program
from workloads.spending.guard import GPU, QUOTA, Guard

START = 1_800_000_000.0
RATES = {"usdPerHourFixed": 1.0, "usdPerMachineHour": 40.0}
TERMS = {"limitUsd": 1000.0, "until": None, "since": None, "then": "pause", "onUnknown": "warn", "warnAt": [0.5, 0.95]}
CONFIG: dict[str, Any] = {
    "namespace": "vllm",
    **TERMS,
    **RATES,
    "unknown": [],
    "intervalSeconds": 30,
    "idleSeconds": 600,
    "graceSeconds": 0,
}


class Cluster:
    """As much of the API as the guard asks, and two clocks."""

    def __init__(self) -> None:
        self.wall = self.server = 0.0
        self.pods: dict[str, dict[str, Any]] = {}
        self.sets: dict[str, dict[str, Any]] = {}
        self.state: str | None = None
        self.version = 1
        self.quota: dict[str, Any] | None = None
        self.in_force = True
        self.away = False
        self.refuses: set[tuple[str, str]] = set()
        self.deleted: list[str] = []

    @property
    def date(self) -> float:
        return START + self.server

    def passes(self, seconds: float) -> None:
        self.wall += seconds
        self.server += seconds

    def pod(self, name: str, node: str = "", *, gpus: str = "8", phase: str = "Running") -> None:
        limits = {GPU: gpus} if gpus != "0" else {}
        spec = {"containers": [{"resources": {"limits": limits}}], **({"nodeName": node} if node else {})}
        metadata = {"name": name, "uid": name}
        self.pods[name] = {"metadata": metadata, "spec": spec, "status": {"phase": phase}}

    def ask(self, method: str, path: str, body: Any = None, _: str = "") -> Any:
        if self.away:
            raise OSError("nobody answers")
        what = path.partition("?")[0].split("/namespaces/vllm/")[1].split("/")
        if (method, what[-1]) in self.refuses:
            raise HTTPError(path, 403, "a webhook says no", Message(), None)
        match method, what:
            case "GET", ["pods"]:
                return {"items": list(self.pods.values())}
            case "DELETE", ["pods", name]:
                self.deleted.append(name)
                return self.pods.pop(name, None)
            case "GET", ["replicasets"]:
                return {"items": list(self.sets.values())}
            case "PATCH", ["replicasets", name, "status"]:
                self.sets[name]["status"] |= body["status"]
            case "GET", ["configmaps", "spending"]:
                data = {} if self.state is None else {"data": {"state": self.state}}
                return {"metadata": {"resourceVersion": str(self.version), "uid": "u"}, **data}
            case "PATCH", ["configmaps", "spending"]:
                if body["metadata"]["resourceVersion"] != str(self.version):
                    raise HTTPError(path, 409, "the object has been modified", Message(), None)
                self.version, self.state = self.version + 1, body["data"]["state"]
                return {"metadata": {"resourceVersion": str(self.version), "uid": "u"}}
            case "PATCH", ["resourcequotas", "spending-pause"]:
                self.quota = {**body, "status": {"hard": body["spec"]["hard"]} if self.in_force else {}}
                return self.quota
            case "DELETE", ["resourcequotas", "spending-pause"]:
                gone, self.quota = self.quota, None
                return gone
            case _:
                raise AssertionError((method, path))
        return {}

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
        self.guard = Guard(cluster, {**CONFIG, **terms})  # type: ignore[arg-type]
        self._capsys = capsys

    def turn(self) -> list[dict[str, Any]]:
        try:
            self.guard.turn()
        except OSError as error:
            self.guard.fail(error)
        return [json.loads(line) for line in self._capsys.readouterr().out.splitlines()]

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
    cluster.pod("ended", "n3", phase="Succeeded")
    cluster.pod("writer", "n4", gpus="0")
    guard = guarding()
    assert [line["step"] for line in guard.turn()] == ["started"]
    cluster.passes(1800)
    guard.turn()
    assert cluster.kept["usd"] == pytest.approx((2 * 40 + 1) / 2)
    assert cluster.kept["usdPerHour"] == 81


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
    guarding(limitUsd=None).turn()
    cluster.server += jump
    assert guarding(limitUsd=None).steps() == ["blind", "started"]
    assert cluster.kept["usd"] == pytest.approx(41 * hours)
    assert bool(cluster.kept["unknown"]) is (hours > 0)


def test_each_share_is_warned_of_once_and_again_after_a_renewal(cluster: Cluster, guarding: Any) -> None:
    cluster.pod("a", "n1")
    guard = guarding(limitUsd=100.0)
    guard.turn()
    told: list[float] = []
    for _ in range(20):
        cluster.passes(300)
        told += [line["share"] for line in guard.turn() if line["step"] == "warned"]
    assert told == [0.5]
    assert guarding(limitUsd=100.0).steps() == ["started"]
    assert guarding(limitUsd=1000.0).steps() == ["started"]
    assert guarding(limitUsd=100.0).steps() == ["started", "warned"]


def test_it_pauses_before_the_limit_by_what_idle_machines_still_cost(cluster: Cluster, guarding: Any) -> None:
    cluster.pod("a", "n1")
    guard = guarding(limitUsd=100.0)
    guard.turn()
    while cluster.quota is None:
        cluster.passes(30)
        guard.turn()
    assert cluster.deleted == ["a"]
    assert cluster.quota["spec"]["hard"] == {f"requests.{GPU}": "0"}
    assert cluster.quota["metadata"]["ownerReferences"][0]["name"] == "spending"
    steps: list[str] = []
    for _ in range(40):
        cluster.passes(30)
        steps += guard.steps()
    assert steps == ["warned"]
    assert cluster.kept["usd"] == pytest.approx(100, abs=1)
    assert cluster.quota is not None


def test_no_pod_goes_before_the_quota_is_in_force_and_twenty_go_at_a_time(cluster: Cluster, guarding: Any) -> None:
    for number in range(50):
        cluster.pod(f"p{number}", f"n{number}")
    cluster.pod("writer", "n60", gpus="0")
    cluster.in_force = False
    guard = guarding(limitUsd=1.0)
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
    guarding(limitUsd=1.0).turn()
    refused = {"type": "ReplicaFailure", "message": f"exceeded quota: gpu, requested: requests.{GPU}=8"}
    other = {"type": "ReplicaFailure", "message": "exceeded quota: pods"}
    cluster.sets = {
        name: {"metadata": {"name": name}, "status": {"conditions": [one]}}
        for name, one in (("a", refused), ("b", other))
    }
    assert guarding(limitUsd=1.0).steps() == ["started"]
    guard = guarding(limitUsd=500.0)
    assert guard.steps() == ["started", "resumed"]
    assert cluster.quota is None
    assert [one["status"]["conditions"] for one in cluster.sets.values()] == [[], [other]]
    # The API server may still have known the quota when the controller looked.
    cluster.sets["a"]["status"]["conditions"] = [refused]
    assert guard.steps() == []
    assert cluster.sets["a"]["status"]["conditions"] == []


def test_a_pause_that_a_former_guard_left_is_ended(cluster: Cluster, guarding: Any) -> None:
    cluster.quota = {"metadata": {"name": QUOTA}}
    assert guarding().steps() == ["started", "resumed"]
    assert cluster.quota is None


def test_until_pauses_at_its_moment_and_a_later_one_resumes(cluster: Cluster, guarding: Any) -> None:
    cluster.pod("a", "n1")
    guard = guarding(limitUsd=None, until="2027-01-15T09:00:00Z")
    assert guard.steps() == ["started"]
    cluster.passes(3600)
    (line,) = guard.turn()
    assert (line["step"], line["reason"], cluster.deleted) == ("paused", "until", ["a"])
    assert guarding(limitUsd=None, until="2027-02-01T00:00:00Z").steps() == ["started", "resumed"]


def test_who_chose_to_be_warned_is_only_warned(cluster: Cluster, guarding: Any) -> None:
    cluster.pod("a", "n1")
    guard = guarding(limitUsd=1.0, then="warn")
    lines = guard.turn()
    assert [line["step"] for line in lines] == ["started", "warned"]
    assert lines[-1]["share"] == 1.0
    cluster.passes(30)
    assert guard.steps() == []
    assert (cluster.quota, cluster.deleted) == (None, [])


@pytest.mark.parametrize(("choice", "steps"), [("warn", ["started"]), ("pause", ["started", "paused"])])
def test_a_missing_price_is_no_blindness_and_pauses_only_by_choice(
    guarding: Any, choice: str, steps: list[str]
) -> None:
    lines = guarding(onUnknown=choice, unknown=["A4 node"]).turn()
    assert [line["step"] for line in lines] == steps
    assert (lines[0]["unpriced"], lines[0]["severity"]) == (["A4 node"], "WARNING")
    (known,) = guarding(onUnknown="warn").turn()[:1]
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
    guarding(limitUsd=1.0).turn()
    assert cluster.quota is not None
    cluster.refuses = {("GET", "pods")}
    guard = guarding(limitUsd=1000.0, since="2027-02-01T00:00:00Z")
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
    guard = guarding(limitUsd=1.0)
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
    guard = guarding(limitUsd=1.0)
    assert guard.steps() == ["started"]
    cluster.passes(3600)
    (line,) = [line for line in guard.turn() if line["step"] == "blind"]
    assert "a webhook says no" in line["message"]
    assert cluster.kept["usd"] == pytest.approx(41)
    assert cluster.deleted == []


def test_a_sum_that_may_not_be_kept_keeps_nobody_from_pausing(cluster: Cluster, guarding: Any) -> None:
    cluster.pod("a", "n1")
    cluster.refuses = {("PATCH", "spending")}
    assert guarding(limitUsd=1.0).steps() == ["started", "paused"]
    assert cluster.deleted == ["a"]


@pytest.mark.parametrize(
    ("terms", "word"),
    [
        ({"then": "warn"}, "then is warn"),
        ({"limitUsd": 500.0}, "limit"),
        ({"since": "2027-02-01T00:00:00Z", "limitUsd": 500.0}, "knows nothing"),
    ],
)
def test_it_says_why_a_pause_ends(cluster: Cluster, guarding: Any, terms: dict[str, Any], word: str) -> None:
    cluster.pod("a", "n1")
    guarding(limitUsd=1.0).turn()
    cluster.pod("a", "n1")
    (line,) = [line for line in guarding(**{"limitUsd": 1.0, **terms}).turn() if line["step"] == "resumed"]
    assert word in line["message"]


@pytest.mark.parametrize(
    "change", [{"since": None}, {"usd": "much"}, {"usd": float("nan")}, {"nodes": {"n1": 1}}, None]
)
def test_a_damaged_sum_is_unreadable_and_no_crash(cluster: Cluster, guarding: Any, change: Any) -> None:
    guarding().turn()
    sound = cluster.kept
    damaged: Any = {"at": 1} if change is None else {**sound, **change}
    if change == {"since": None}:
        damaged = {name: value for name, value in sound.items() if name != "since"}
    cluster.state = json.dumps(damaged)
    assert guarding().steps() == ["blind", "started"]
    assert cluster.kept["unknown"]


def test_another_since_starts_a_new_sum(cluster: Cluster, guarding: Any) -> None:
    cluster.pod("a", "n1")
    guard = guarding()
    guard.turn()
    cluster.passes(3600)
    guard.turn()
    assert cluster.kept["usd"] == pytest.approx(41)
    guarding(since="2027-01-15T10:00:00Z").turn()
    assert cluster.kept["usd"] == 0


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


def test_a_sum_that_somebody_spoilt_is_the_processs_own_and_is_unknown_to_the_next(
    cluster: Cluster, guarding: Any
) -> None:
    cluster.pod("a", "n1")
    guard = guarding()
    guard.turn()
    cluster.passes(3600)
    cluster.state, cluster.version = "{", cluster.version + 1
    guard.turn()
    guard.turn()
    assert cluster.kept["usd"] == pytest.approx(41)
    cluster.state = "{"
    assert guarding(onUnknown="pause").steps() == ["blind", "started", "paused"]


def test_what_is_shipped_is_the_program() -> None:
    code = python_program("spending/guard.py")
    space: dict[str, Any] = {"__name__": "shipped"}
    exec(compile(code, "guard", "exec"), space)
    assert space["NONE_OF_THEM"] == program.NONE_OF_THEM
    assert '"""' not in code
