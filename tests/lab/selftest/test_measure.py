"""The whole chain once, small, and what its findings say when something is off."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import uuid
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fleet.bench.errors import BenchmarkError
from fleet.bench.folder import Asked
from fleet.bench.measurement import Certificate, Check
from fleet.bench.run.progress_words import _WORDS
from fleet.jobs.display import State
from lab.selftest.agreement import findings
from lab.selftest.cost import client_cost, warm_up
from lab.selftest.load import OVERLOAD, Load, Mode, SelfTest, calibrating, saturating, slow_server, sound
from lab.selftest.measure import Measured, measure
from lab.selftest.tokenizer_folder import write_tokenizer
from lab.simulators.model_server.node import Faults, Node, Pace

ROOT = Path(__file__).resolve().parents[3]
NODE = Node(model="the/model", ranks=2, pace=Pace(fixed_s=0.02), speculative_tokens=1, max_model_len=4096)
SMALL = Load(
    node=NODE,
    faults=Faults(),
    input_tokens=40,
    output_tokens=24,
    connections=8,
    clients=2,
    pods=2,
    requests_per_client=20,
    repeats=1,
)


@pytest.fixture(scope="module")
def told() -> list[State]:
    """What whoever waits for `measured` was shown."""
    return []


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory, told: list[State]) -> Measured:
    with pytest.MonkeyPatch.context() as patch:
        # A proxy for the world, which nothing here goes through.
        patch.setenv("http_proxy", "http://127.0.0.1:9")
        patch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
        patch.setenv("NO_PROXY", "example.org")
        # urllib keeps the proxies that it found at its first request: none of other tests' here, and none of these there.
        patch.setattr("urllib.request._opener", None)
        measured = measure(SMALL, servers=2, folder=tmp_path_factory.mktemp("measurement"), vllm=None, show=told.append)
        assert os.environ["NO_PROXY"] == "example.org"
    return measured


def counted(measured: Measured) -> dict[str, bool]:
    """Whether requests, output tokens and input tokens are the servers' own, and no request failed: by their first words."""
    return {finding.subject.split()[0]: not finding.blocks for finding in findings(measured, "saturated-client")[:4]}


def test_the_whole_chain_agrees_with_servers_that_count_every_token(measured: Measured) -> None:
    assert counted(measured) == {"requests": True, "output": True, "input": True, "no": True}
    run = measured.judged.measurement.runs[0]
    assert (run.completed, len(run.clients), run.connections, run.clock) == (40, 2, 8, "witness")
    assert run.server is not None
    assert len(run.server.engines) == 4
    by_id = {check.id: check for check in measured.judged.certificate.checks}
    for name in ("asked", "complete", "prompts", "lengths", "failures", "cache-config", "open-files"):
        assert by_id[name].verdict == "passed", by_id[name].found
    names = sorted(file.name for file in measured.folder.rglob("*") if file.is_file())
    for name in ("run.json", "merged.json", "client-001.witness.json", "pod-1.json", "server-metrics.jsonl.gz"):
        assert name in names


def test_whoever_waits_is_told_where_it_stands(measured: Measured, told: list[State]) -> None:
    phases = list(dict.fromkeys(state.phase for state in told))
    assert phases[:2] == ["starting the servers", "starting the pods"]
    assert phases[-2:] == ["downloading the results", "merging and judging"]
    # And the pods' own words between them, whichever a look met with.
    assert set(phases[2:-2]) & set(_WORDS.values())
    assert measured.played.seconds > 0


def test_costs_and_warm_ups_are_read_from_the_files(measured: Measured) -> None:
    client = client_cost(measured.folder)
    assert client.requests == 40
    assert 40 * 8 < client.chunks < 40 * 32
    assert 5 < client.us_per_chunk < 20_000
    # Whatever the clients read the servers had sent, and nothing twice; the warm-up comes on top.
    warm = warm_up(measured.folder, 32)
    assert warm.requests == 8
    assert sum(server["accepted"] for server in measured.servers) == 48
    assert sum(server["chunks_sent"] for server in measured.servers) > client.chunks


def test_a_token_too_many_disagrees(measured: Measured) -> None:
    first: dict[str, Any] = dict(measured.servers[0])
    engine = {**first["engines"][0], "generation_tokens": first["engines"][0]["generation_tokens"] + 1}
    off = replace(measured, servers=({**first, "engines": [engine, *first["engines"][1:]]}, *measured.servers[1:]))
    assert counted(off) == {"requests": True, "output": False, "input": True, "no": True}


def judged_with(measured: Measured, *failed: tuple[str, Any]) -> Measured:
    checks = tuple(
        Check(id=name, title="t", verdict="failed", found="f", allowed="a", why="w", blames=blames)
        for name, blames in failed
    )
    certificate = Certificate(verdict="not certified", headline="h", checks=checks)
    return replace(measured, judged=measured.judged.model_copy(update={"certificate": certificate}))


CLIENT, SERVER, DATA = ("client-cpu", "client"), ("engine-balance", "server"), ("prompts", "data")


@pytest.mark.parametrize(
    ("mode", "failed", "agrees"),
    [
        # A client is caught; no server is blamed.
        ("saturated-client", [CLIENT], [True, True]),
        ("saturated-client", [], [False, True]),
        ("saturated-client", [("client-balance", "client")], [False, True]),
        ("saturated-client", [CLIENT, SERVER], [True, False]),
        # No fault with the data; a server is caught; no client is blamed.
        ("slow-server", [SERVER], [True, True, True]),
        ("slow-server", [SERVER, CLIENT], [True, True, False]),
        ("slow-server", [], [True, False, True]),
        # No fault with the data; no server is blamed.
        ("sound", [], [True, True]),
        ("sound", [SERVER], [True, False]),
        ("sound", [DATA], [False, True]),
    ],
)
def test_the_certificate_must_blame_who_is_to_blame(
    measured: Measured, mode: Mode, failed: list[tuple[str, Any]], agrees: list[bool]
) -> None:
    found = findings(judged_with(measured, *failed), mode)
    assert [not one.blocks for one in found[-len(agrees) :]] == agrees


def test_a_rate_that_the_servers_did_not_give_disagrees(measured: Measured) -> None:
    run = measured.judged.measurement.runs[0]
    assert run.server is not None
    engines = tuple(
        engine.model_copy(update={"generation_tokens": tokens})
        for engine, tokens in zip(run.server.engines, (900.0, 900.0, 900.0, 900.0), strict=True)
    )
    for rate, agrees in ((360.0, True), (330.0, False), (390.0, False)):
        steady = run.whole.model_copy(update={"seconds": 10.0, "output_tokens_per_s": rate})
        server = run.server.model_copy(update={"engines": engines})
        changed = run.model_copy(update={"steady": steady, "server": server})
        merged = measured.judged.measurement.model_copy(update={"runs": (changed,)})
        off = replace(measured, judged=measured.judged.model_copy(update={"measurement": merged}))
        (found,) = [finding for finding in findings(off, "sound") if "load 1, repeat 1" in finding.subject]
        assert found.blocks is not agrees


def test_a_pod_that_fails_is_quoted(tmp_path: Path) -> None:
    # The pod asks for a model that no server has.
    broken = replace(SMALL, node=replace(NODE, model="other/model"), clients=1, pods=1)
    asked = broken.asked

    class Wrong(Load):
        def asked(self, servers: int) -> dict[str, Any]:
            return {**asked(servers), "served_model": "the/model"}

    fields = {name: getattr(broken, name) for name in broken.__dataclass_fields__}
    with pytest.raises(BenchmarkError, match=r"other/model.*the/model") as caught:
        measure(Wrong(**fields), servers=1, folder=tmp_path / "m", vllm=None)
    # The bucket is gone with the self-test.
    assert "gs://" not in str(caught.value)


def test_answers_that_never_come_end_the_self_test(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lab.selftest.pods.START_SECONDS", 0.4)
    monkeypatch.setattr("lab.selftest.pods.LONGER", 0.0)
    stuck = replace(SMALL, node=replace(NODE, pace=Pace(fixed_s=3_600)), clients=1, pods=1)
    with pytest.raises(BenchmarkError, match=" 0 s"):
        measure(stuck, servers=1, folder=tmp_path / "m", vllm=None)


def test_a_load_says_how_long_it_takes() -> None:
    # 40 requests on 8 connections are five turns of 24 tokens: a step to the first one, and one for each 1.9.
    assert SMALL.planned_seconds == pytest.approx(5 * (1 + 24 / 1.9) * 0.02)


def asked(tmp_path: Path, **fields: Any) -> SelfTest:
    return SelfTest(**{"folder": tmp_path / "out", **fields})


def test_loads_say_what_they_ask_for(tmp_path: Path) -> None:
    for load in (
        sound(asked(tmp_path)),
        slow_server(asked(tmp_path)),
        calibrating(),
        saturating(asked(tmp_path), 20.0),
    ):
        said = Asked.model_validate(load.asked(2), strict=False)
        assert said.points[0].clients == load.clients
        assert said.prompts_per_client * load.clients >= 1


def test_a_dearer_client_is_offered_less(tmp_path: Path) -> None:
    for cost in (10.0, 40.0):
        load = saturating(asked(tmp_path), cost)
        assert load.connections / load.node.pace.fixed_s == pytest.approx(OVERLOAD * 1e6 / cost)


def test_the_true_clients_tokenizer_is_two_json_files(tmp_path: Path) -> None:
    folder = write_tokenizer(tmp_path / "t")
    assert sorted(file.name for file in folder.iterdir()) == ["tokenizer.json", "tokenizer_config.json"]


@pytest.mark.slow
def test_pods_and_clients_end_when_the_self_test_is_killed(tmp_path: Path) -> None:
    start = "from pathlib import Path; from lab.selftest.course import run; from lab.selftest.load import SelfTest"
    command = [sys.executable, "-c", f"{start}; run(SelfTest(folder=Path({str(tmp_path / 'measurement')!r})))"]
    # Everything that it starts inherits this.
    mark = f"SELFTEST_MARK={uuid.uuid4().hex}"
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        env={**os.environ, **dict([mark.split("=")]), "TMPDIR": str(tmp_path)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )

    def started_by_it() -> list[int]:
        found = []
        for entry in Path("/proc").iterdir():
            try:
                if entry.name.isdigit() and mark.encode() in (entry / "environ").read_bytes():
                    found.append(int(entry.name))
            except OSError:
                continue
        return [one for one in found if one != process.pid]

    try:
        until = time.monotonic() + 60
        # Two servers, two pods, two clients and a collector.
        while len(started_by_it()) < 7 and time.monotonic() < until:
            assert process.poll() is None, process.returncode
            time.sleep(0.1)
        assert len(started_by_it()) >= 7
    finally:
        # Not waited for, its ResourceWarning fails a later test that happens to collect garbage.
        process.kill()
        process.wait()
    until = time.monotonic() + 60
    while started_by_it() and time.monotonic() < until:
        time.sleep(0.1)
    assert started_by_it() == []
