"""The client: what it sees from within, and what it refuses; with a stand-in for vLLM, and with vLLM 0.18.1 itself."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fleet.bench.folder import Witness
from tests.support.benchmark import ENVIRONMENT, VLLM_PYTHON, needs_vllm, write_tokenizer
from tests.support.waiting import until
from tests.workloads.benchmark.pods.stand_in import SERVE, stand_in
from workloads.benchmark.pods import bench_client

ROOT = Path(__file__).parents[4]


class Client:
    """One client process and its files."""

    def __init__(self, folder: Path, python: Path | str, path: str, options: list[str], **environment: str) -> None:
        self.folder = folder
        self.log = folder / "log"
        files = [f"--{name}-file={folder / name}" for name in ("ready", "go")]
        command = [
            str(python),
            "-m",
            "workloads.benchmark.pods.bench_client",
            f"--witness={folder / 'witness'}",
            *files,
        ]
        command += ["--client=3", "--", *options]
        command += ["--save-result", "--save-detailed", f"--result-dir={folder}", "--result-filename=result"]
        command += ["--metadata", "run=a", "client=3"]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                command, stdout=log, stderr=log, env={**os.environ, "PYTHONPATH": path, **environment}
            )

    def wait_until_ready(self, seconds: float) -> None:
        def is_ready() -> bool:
            assert self.process.poll() is None, self.log.read_text()[-3000:]
            return (self.folder / "ready").exists()

        until(is_ready, seconds)

    def go(self, after: float) -> float:
        moment = time.time() + after
        bench_client.write_whole(self.folder / "go", f"{moment:.6f}\n")
        return moment

    @property
    def witness(self) -> Witness:
        return Witness.model_validate_json((self.folder / "witness").read_text())

    @property
    def result(self) -> dict[str, list[float]]:
        content: dict[str, list[float]] = json.loads((self.folder / "result").read_text())
        return content


def start(tmp_path: Path, wrong: str = "", serve: str = SERVE, **environment: str) -> Client:
    path = f"{ROOT}:{stand_in(tmp_path / 'tree', serve)}"
    options = ["--num-prompts=20", "--seed=7", "--max-concurrency=2"]
    return Client(tmp_path, sys.executable, path, options, WRONG=f"3:{wrong}", **environment)


def refusal(tmp_path: Path, wrong: str = "", serve: str = SERVE) -> str:
    client = start(tmp_path, wrong, serve, REQUEST_SECONDS="0.001")
    client.go(0.0)
    assert client.process.wait(20) == 1
    assert not (tmp_path / "witness").exists()
    log = client.log.read_text()
    assert "Traceback" not in log
    return log.splitlines()[-1]


def test_a_client_waits_for_the_common_start_and_tells_what_it_saw(tmp_path: Path) -> None:
    client = start(tmp_path, REQUEST_SECONDS="0.03")
    client.wait_until_ready(20)
    time.sleep(0.1)
    assert client.process.poll() is None
    go = client.go(0.15)
    assert client.process.wait(20) == 0, client.log.read_text()
    seen, result = client.witness, client.result
    assert (seen.client, seen.seed, seen.program) == (3, 7, "vllm bench serve 0.0.1")
    # The two clocks lay the first request right behind the start.
    first = seen.clock.wall + result["start_times"][0] - seen.clock.perf_counter
    assert -1e-3 <= first - go < 1.0
    samples = seen.samples
    assert len(samples.at) == len(samples.cpu_share) == len(samples.loop_lag_ms) == 1
    assert samples.at[0] - go == pytest.approx(20 * 0.03, abs=2.0)
    assert all(0 <= share < 0.5 for share in samples.cpu_share)
    assert len(set(seen.prompt_hashes)) == 20
    assert set(seen.asked_output_tokens) == {3}


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ("no-first", "never called fetch_spec_decode_metrics: the client did not wait for the common start"),
        ("no-second", "called fetch_spec_decode_metrics once and not again: the end of the run is unknown"),
        ("short", "drew 20 requests and has 19 results: their order is not known"),
        ("early", "started 1 measured requests before the common start"),
    ],
)
def test_a_vllm_that_goes_another_way_is_refused(tmp_path: Path, wrong: str, message: str) -> None:
    assert refusal(tmp_path, wrong) == f"vllm bench serve 0.0.1 {message}"


LAUNCHER = """
import os, pathlib, sys
from tests.workloads.benchmark.pods.test_bench_client import start
client = start(pathlib.Path(sys.argv[1]))
client.wait_until_ready(20)
print(client.process.pid, flush=True)
os._exit(0)
"""


def test_a_client_whose_launcher_is_gone_waits_for_no_start(tmp_path: Path) -> None:
    launched = subprocess.run(
        [sys.executable, "-c", LAUNCHER, str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=40,
        check=True,
    )
    until(lambda: not Path(f"/proc/{int(launched.stdout)}/fd/0").exists(), 20)
    assert "the program that started this client ended before the common start" in (tmp_path / "log").read_text()


def test_a_vllm_without_the_hooks_is_refused_by_name(tmp_path: Path) -> None:
    serve = SERVE.replace("def fetch_spec_decode_metrics", "def fetch_metrics")
    assert refusal(tmp_path, serve=serve) == (
        "vllm bench serve 0.0.1 has no fetch_spec_decode_metrics in vllm.benchmarks.serve: this client fits 0.18.1"
    )


class Clock:
    """The client's own time, with a sampler whose ticks come when the test says."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = self.cpu = 0.0
        times = SimpleNamespace(perf_counter=lambda: self.now, process_time=lambda: self.cpu, time=lambda: self.now)
        monkeypatch.setattr(bench_client, "time", times)
        timer = SimpleNamespace(cancel=lambda: None)
        monkeypatch.setattr(asyncio, "get_running_loop", lambda: SimpleNamespace(call_later=lambda *_: timer))
        self.sampler = bench_client.Sampler()
        self.sampler.start()

    def tick(self, late_seconds: float, busy_seconds: float = 0.0) -> None:
        self.now += bench_client.TICK_SECONDS + late_seconds
        self.cpu += busy_seconds
        self.sampler._tick()


def test_a_busy_loop_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    for _ in range(50):
        clock.tick(late_seconds=0.04, busy_seconds=0.9 * (bench_client.TICK_SECONDS + 0.04))
    clock.sampler.stop()
    assert clock.sampler.cpu[0] == pytest.approx(0.9, abs=0.01)
    assert clock.sampler.lag_ms[0] == pytest.approx(40)
    assert clock.sampler.lag_p99_ms == pytest.approx(40)


def test_rare_long_stalls_count_for_the_time_they_take(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tenth of the time in stalls of 300 ms is one tick in 136."""
    clock = Clock(monkeypatch)
    for tick in range(1360):
        clock.tick(late_seconds=0.3 if tick % 136 == 0 else 0.0)
    assert 250 < clock.sampler.lag_p99_ms < 300


def test_samples_come_second_by_second(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench_client, "SAMPLE_SECONDS", 0.05)
    monkeypatch.setattr(bench_client, "LEAST_SAMPLE_SECONDS", 0.03)
    monkeypatch.setattr(bench_client, "TICK_SECONDS", 0.005)

    async def idle() -> bench_client.Sampler:
        sampler = bench_client.Sampler()
        sampler.start()
        await asyncio.sleep(0.3)
        sampler.stop()
        return sampler

    sampler = asyncio.run(idle())
    assert 2 <= len(sampler.at) <= 6
    assert len(sampler.at) == len(sampler.cpu) == len(sampler.lag_ms)
    assert all(later - earlier > 0.045 for earlier, later in itertools.pairwise(sampler.at[:-1]))


def test_a_server_that_keeps_its_metrics_to_itself_keeps_no_client(monkeypatch: pytest.MonkeyPatch) -> None:
    """vLLM would wait for the page for six hours, and the result of the run with it."""
    monkeypatch.setattr(bench_client, "METRICS_SECONDS", 0.05)
    seen, waited = bench_client.Seen(), []

    async def hangs(*_: Any) -> None:
        await asyncio.sleep(600)

    async def wait() -> None:
        waited.append(seen.calls)

    async def both() -> list[Any]:
        fetch = bench_client.wrap_fetch(hangs, seen, bench_client.Sampler(), wait)
        return [await fetch("http://server", None) for _ in range(2)]

    assert asyncio.run(asyncio.wait_for(both(), 10)) == [None, None]
    assert waited == [1]


def test_hashes_are_those_that_the_contract_names() -> None:
    assert bench_client.prompt_hash("Grüße") == blake2b("Grüße".encode(), digest_size=8).hexdigest()
    assert bench_client.prompt_hash([1, 2]) == blake2b(b"[1, 2]", digest_size=8).hexdigest()


def test_requests_of_a_file_are_read_in_order_and_begun_again_when_they_are_too_few(tmp_path: Path) -> None:
    file = tmp_path / "slice.jsonl"
    file.write_text('{"prompt": "12\u202834", "output_tokens": 5}\n{"prompt": [7, 8, 9], "output_tokens": 6}\n')
    requests = list(bench_client.read_requests(file, 3, None, 0))
    assert [(one.prompt, one.prompt_len, one.expected_output_len) for one in requests] == [
        ("12\u202834", 2, 5),
        ([7, 8, 9], 3, 6),
        ("12\u202834", 2, 5),
    ]
    assert len({one.request_id for one in requests}) == 3


def test_requests_of_known_length_are_as_many_token_ids(tmp_path: Path) -> None:
    file = tmp_path / "part.jsonl"
    file.write_text('{"input_tokens": 40, "output_tokens": 5}\n' * 2)
    tokenizer = SimpleNamespace(vocab_size=100)
    first, second = (list(bench_client.read_requests(file, 2, tokenizer, seed)) for seed in (1, 2))
    assert [len(one.prompt) for one in first] == [one.prompt_len for one in first] == [40, 40]
    assert max(first[0].prompt) < 100  # type: ignore[type-var]
    assert len({tuple(one.prompt) for one in (*first, *second)}) == 4


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tokenizer")
    write_tokenizer(folder)
    return folder


@contextmanager
def noting_server() -> Iterator[Any]:
    """A server with one engine, which notes each request as `asked`: when it came, its body, and how many were in flight."""
    # aiohttp takes its time to be imported.
    from tests.support.simulators.model_server.engine_server import EngineServer
    from tests.support.simulators.model_server.in_thread import serving
    from tests.support.simulators.model_server.node import Node, Pace

    class Noting(EngineServer):
        asked: list[tuple[float, dict[str, Any], int]]

        async def _completions(self, request: Any) -> Any:
            self.asked.append((time.time(), await request.json(), self.in_flight + 1))
            return await super()._completions(request)

    Noting.asked = []
    with serving(lambda: Noting(Node(model="the/model", ranks=1, pace=Pace(fixed_s=0.002)))) as server:
        yield server


def real_client(tmp_path: Path, url: str, tokenizer: Path, *options: str) -> Client:
    common = ["--backend=openai", f"--base-url={url}", "--endpoint=/v1/completions", "--model=the/model"]
    common += [f"--tokenizer={tokenizer}", "--num-warmups=5", "--max-concurrency=8", "--seed=77"]
    return Client(tmp_path, VLLM_PYTHON, str(ROOT), [*common, *options], **ENVIRONMENT)


@pytest.mark.slow
@needs_vllm
def test_the_real_vllm_warms_up_before_the_start_and_sends_in_the_order_it_was_given(
    tmp_path: Path, tokenizer: Path
) -> None:
    lengths = ["--random-input-len=60", "--random-output-len=20", "--random-range-ratio=0.3333"]
    with noting_server() as server:
        client = real_client(tmp_path, server.url, tokenizer, "--dataset-name=random", "--num-prompts=40", *lengths)
        client.wait_until_ready(120)
        assert len(server.asked) == 5, "the warm-up lies before the start"
        time.sleep(1.0)
        assert len(server.asked) == 5, "nothing is sent while the client waits"
        go = client.go(0.5)
        assert client.process.wait(60) == 0, client.log.read_text()[-3000:]
        warm_up, measured = server.asked[:5], server.asked[5:]
    assert len(measured) == 40
    assert 0 <= measured[0][0] - go < 1.0, "the first request follows the start at once"
    assert max(in_flight for *_, in_flight in server.asked) <= 8
    seen, result = client.witness, client.result
    assert seen.program == "vllm bench serve 0.18.1"
    asked_for = {bench_client.prompt_hash(body["prompt"]): body["max_tokens"] for _, body, _ in measured}
    assert {bench_client.prompt_hash(body["prompt"]) for _, body, _ in warm_up} == {seen.prompt_hashes[0]}
    # Lengths differ from request to request: lists in another order would not agree.
    assert len(set(seen.asked_output_tokens)) > 5
    assert [asked_for[mark] for mark in seen.prompt_hashes] == list(seen.asked_output_tokens) == result["output_lens"]
    assert list(seen.asked_input_tokens) == result["input_lens"]
    starts = [seen.clock.wall + moment - seen.clock.perf_counter for moment in result["start_times"]]
    assert min(starts) >= go - 1e-3
    assert max(starts) < seen.clock.wall


@pytest.mark.slow
@needs_vllm
def test_the_real_vllm_sends_a_file_of_requests_with_their_own_lengths(tmp_path: Path, tokenizer: Path) -> None:
    lines = [{"input_tokens": 64 + n, "output_tokens": 3 + n} for n in range(20)]
    given = [{"prompt": "bababa bababe bababi", "output_tokens": 30}]
    (tmp_path / "part.jsonl").write_text("".join(json.dumps(line) + "\n" for line in [*lines, *given]))
    path = f"--dataset-path={tmp_path / 'part.jsonl'}"
    options = ["--dataset-name=custom", path, "--custom-output-len=-1", "--skip-chat-template", "--disable-shuffle"]
    with noting_server() as server:
        client = real_client(tmp_path, server.url, tokenizer, *options, "--num-prompts=21", "--ignore-eos")
        client.wait_until_ready(120)
        client.go(0.2)
        assert client.process.wait(60) == 0, client.log.read_text()[-3000:]
        sent = [body for _, body, _ in server.asked[5:]]
    assert all(body["ignore_eos"] is True for body in sent)
    seen, result = client.witness, client.result
    assert list(seen.asked_output_tokens) == result["output_lens"] == [*range(3, 23), 30]
    by_hash = {bench_client.prompt_hash(body["prompt"]): body for body in sent}
    prompts = [by_hash[mark]["prompt"] for mark in seen.prompt_hashes]
    assert [len(prompt) for prompt in prompts[:20]] == list(seen.asked_input_tokens[:20]) == list(range(64, 84))
