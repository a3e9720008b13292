from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lab.selftest.small_client.vllm.benchmarks.statistics_of import percentile
from lab.selftest.tokenizer_folder import words, write_tokenizer
from lab.simulators.model_server.engine_server import EngineServer
from lab.simulators.model_server.in_thread import serving
from lab.simulators.model_server.node import Faults, Node, Pace

ROOT = Path(__file__).resolve().parents[3]
SMALL = ROOT / "lab" / "selftest" / "small_client"
TRUE = ROOT / ".venv-vllm" / "bin" / "python"
MODEL = "the/model"
RUN = (
    "import asyncio, sys\n"
    "from vllm.benchmarks import serve\n"
    "from vllm.utils.argparse_utils import FlexibleArgumentParser\n"
    "parser = FlexibleArgumentParser()\n"
    "serve.add_cli_args(parser)\n"
    "asyncio.run(serve.main_async(parser.parse_args(sys.argv[1:])))\n"
)
SHORT = "--random-input-len=24 --random-output-len=12 --random-range-ratio=0.5 --num-prompts=12 --max-concurrency=4"
LISTS = ("input_lens", "output_lens", "ttfts", "itls", "start_times", "generated_texts", "errors")


def server(faults: Faults | None = None, **fields: Any) -> EngineServer:
    node = Node(**{"model": MODEL, "ranks": 2, "pace": Pace(fixed_s=0.001), "speculative_tokens": 1, **fields})
    return EngineServer(node, faults=faults)


def bench(folder: Path, url: str, *more: str, python: Path | None = None, options: str = SHORT) -> dict[str, Any]:
    tokenizer = write_tokenizer(folder / "tokenizer")
    given = [
        "--backend=openai",
        f"--base-url={url}",
        f"--model={MODEL}",
        f"--tokenizer={tokenizer}",
        "--dataset-name=random",
        *options.split(),
        "--seed=7",
        "--percentile-metrics=ttft,tpot,itl,e2el",
        "--metric-percentiles=50,90,99",
        "--save-result",
        "--save-detailed",
        f"--result-dir={folder}",
        "--result-filename=client-000.json",
        *more,
        "--metadata",
        "run=x",
        "client=0",
    ]
    environment = {**os.environ, "PYTHONPATH": str(SMALL)} if python is None else dict(os.environ)
    done = subprocess.run(
        [str(python or sys.executable), "-c", RUN, *given], env=environment, capture_output=True, text=True, timeout=200
    )
    assert done.returncode == 0, done.stderr[-2000:]
    result: dict[str, Any] = json.loads((folder / "client-000.json").read_text())
    return result


@pytest.mark.slow
def test_a_result_holds_every_request_in_order_and_its_totals_are_what_the_server_gave(tmp_path: Path) -> None:
    with serving(server) as one:
        result = bench(tmp_path, one.url, "--num-warmups=2")
        given = sum(engine.generation_tokens for engine in one.engines)
    assert (result["completed"], result["failed"]) == (12, 0)
    assert all(len(result[name]) == 12 for name in LISTS)
    assert given == result["total_output_tokens"] + 2 * result["output_lens"][0]
    assert all(12 <= length <= 36 for length in result["input_lens"])
    assert all(6 <= length <= 18 for length in result["output_lens"])
    assert result["start_times"] == sorted(result["start_times"])
    # With drafts a chunk carries up to two tokens.
    assert sum(len(gaps) + 1 for gaps in result["itls"]) < result["total_output_tokens"]
    assert (result["run"], result["client"], result["tokenizer_id"]) == ("x", "0", str(tmp_path / "tokenizer"))
    assert result["spec_decode_acceptance_rate"] > 50


def test_the_same_seed_draws_the_same_requests() -> None:
    from argparse import Namespace

    from lab.selftest.small_client.vllm.benchmarks.datasets import get_samples

    def prompts(seed: int) -> list[str]:
        asked = Namespace(
            dataset_name="random",
            seed=seed,
            num_prompts=20,
            random_input_len=30,
            random_output_len=10,
            random_range_ratio=0.5,
            random_prefix_len=5,
            request_id_prefix="",
        )
        return [sample.prompt for sample in get_samples(asked, None)]

    assert prompts(1) == prompts(1)
    assert not set(prompts(1)) & set(prompts(2))
    assert len({tuple(prompt.split()[:5]) for prompt in prompts(1)}) == 1


def test_its_bar_says_how_many_requests_are_done(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from lab.selftest.small_client.vllm.benchmarks import serve
    from workloads.benchmark.pods.client_processes import _BAR

    now = [50.0]
    monkeypatch.setattr(serve, "time", SimpleNamespace(monotonic=lambda: now[0]))
    for shown in (True, False):
        bar = serve._Bar(10, shown=shown)
        for _ in range(10):
            now[0] += 0.4
            bar.advance()
    # Once a second, and at the end.
    assert _BAR.findall(capsys.readouterr().err.encode()) == [
        (b"3", b"10"),
        (b"6", b"10"),
        (b"9", b"10"),
        (b"10", b"10"),
    ]


def test_conversations_are_filtered_as_vllm_filters_them(tmp_path: Path) -> None:
    from argparse import Namespace

    from lab.selftest.small_client.vllm.benchmarks.datasets import get_samples

    def talk(prompt: int, answer: int) -> dict[str, Any]:
        return {"conversations": [{"value": "p " * prompt}, {"value": "a " * answer}]}

    file = tmp_path / "sharegpt.json"
    file.write_text(
        json.dumps([talk(3, 9), talk(5, 9), talk(1025, 9), talk(9, 2), talk(900, 1200), {"conversations": []}])
    )
    asked = Namespace(
        dataset_name="sharegpt",
        dataset_path=file,
        seed=0,
        num_prompts=2,
        sharegpt_output_len=None,
        request_id_prefix="",
    )
    samples = get_samples(asked, None)
    assert [(sample.prompt_len, sample.expected_output_len) for sample in samples] == [(5, 9)] * 2


def test_failed_requests_have_no_output_and_say_why(tmp_path: Path) -> None:
    with serving(lambda: server(Faults(unavailable_share=0.25, cut_share=0.25))) as one:
        result = bench(tmp_path, one.url)
    check_failures(result)


def check_failures(result: dict[str, Any]) -> None:
    unavailable = [at for at, error in enumerate(result["errors"]) if error == "Service Unavailable"]
    cut = [at for at, error in enumerate(result["errors"]) if "Traceback" in error]
    assert len(unavailable) == 3
    assert len(cut) in (2, 3)
    assert result["failed"] == len(unavailable) + len(cut)
    for at in unavailable:
        assert (result["ttfts"][at], result["itls"][at]) == (0.0, [])
    # The server's cut takes with it what the client has not read yet, so the first token may be known or not.
    assert all(result["ttfts"][at] >= 0 for at in cut)
    for at in (*unavailable, *cut):
        assert result["output_lens"][at] == 0
        assert result["start_times"][at] > 0
        assert result["generated_texts"][at] == ""
        assert result["input_lens"][at] > 0
    good = [at for at, error in enumerate(result["errors"]) if not error]
    assert result["total_input_tokens"] == sum(result["input_lens"][at] for at in good)


def test_percentiles_are_numpys() -> None:
    import numpy as np

    values = sorted([5.0, 1.0, 9.0, 2.0, 2.5])
    for percent in (0, 10, 50, 90, 99, 99.9, 100):
        assert percentile(values, percent) == pytest.approx(float(np.percentile(values, percent)))


def test_the_true_clients_tokenizer_has_as_many_words_as_it_says() -> None:
    assert len(set(words())) == 65_536


def shape(value: Any) -> Any:
    if isinstance(value, list):
        return ["list", sorted({repr(shape(one)) for one in value})]
    return "number" if isinstance(value, int | float) and not isinstance(value, bool) else type(value).__name__


@pytest.mark.slow
@pytest.mark.skipif(not TRUE.exists(), reason="vLLM is not installed here: make bench-vllm installs it")
@pytest.mark.parametrize("faults", [Faults(), Faults(unavailable_share=0.25, cut_share=0.25)], ids=["sound", "failing"])
@pytest.mark.parametrize("more", [(), ("--goodput", "ttft:500", "e2el:9000")], ids=["plain", "goodput"])
def test_the_small_client_writes_what_the_true_one_writes(
    tmp_path: Path, faults: Faults, more: tuple[str, ...]
) -> None:
    results = []
    for name, python in (("small", None), ("true", TRUE)):
        with serving(lambda: server(faults)) as one:
            results.append(bench(tmp_path / name, one.url, *more, python=python))
    small, true = results
    assert list(small) == list(true)
    for key in true:
        assert shape(small[key]) == shape(true[key]), key
    assert small["completed"] == true["completed"] or faults.cut_share
    if faults.cut_share:
        check_failures(true)
        check_failures(small)


@pytest.mark.slow
@pytest.mark.skipif(not TRUE.exists(), reason="vLLM is not installed here: make bench-vllm installs it")
def test_the_true_client_counts_as_the_server_counts(tmp_path: Path) -> None:
    with serving(server) as one:
        result = bench(tmp_path, one.url, "--num-warmups=1", python=TRUE)
        given = sum(engine.generation_tokens for engine in one.engines)
        read = sum(engine.prompt_tokens for engine in one.engines)
    assert given == result["total_output_tokens"] + result["output_lens"][0]
    assert read == result["total_input_tokens"] + result["input_lens"][0]
