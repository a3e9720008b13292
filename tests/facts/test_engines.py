from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from facts.engines import Flags, find, mistakes, parse, render
from facts.machines import A100_80GB, B200, H100, L4
from facts.releases import of_tag
from facts.upgrades import upgrade
from server_command import is_server_image, server_arguments
from settings.profiles import NAMES, profile
from tests.support.rows import each_row
from workloads.server import api_key, vllm_args


def read(*words: str) -> Flags:
    started = server_arguments(words)
    assert started is not None
    return parse(started.arguments, entrypoint=started.entrypoint)


def serve(*arguments: str) -> Flags:
    return read("vllm", "serve", "model", *arguments)


SEQUENCES = (
    *(("--max-num-seqs=64",), ("--max-num-seqs", "64"), ("--max_num_seqs=64",), ("--max_num_seqs", "64")),
    *(("--max-num-s=64",), ("--max-num-seqs=8", "--max-num-seqs=64")),
)
DRAFTS = (
    ('--speculative-config={"method":"mtp","num_speculative_tokens":2}',),
    ("--speculative-config", '{"method": "mtp", "num_speculative_tokens": 2}'),
    ("--speculative-config.method=mtp", "--speculative-config.num_speculative_tokens=2"),
    ("--speculative_config.method", "mtp", "--speculative_config.num_speculative_tokens", "2"),
)


@each_row(
    ("words", "read_as", "value"),
    [
        *((words, lambda flags: flags.count("max-num-seqs"), 64) for words in SEQUENCES),
        *(
            (words, lambda flags: flags.tensor_parallel_size, 4)
            for words in (("-tp", "4"), ("-tp=4",), ("--tensor-parallel-size", "4"), ("--tensor-p=4",))
        ),
        *(
            (words, lambda flags: flags.text("optimization-level"), "3")
            for words in (("-O3",), ("-O", "3"), ("-O=3",), ("--optimization-level=3",))
        ),
        # Counts may have a suffix.
        *(
            ((f"--max-model-len={text}",), lambda flags: flags.count("max-model-len"), tokens)
            for text, tokens in (("16k", 16_000), ("16K", 16_384), ("131072", 131_072), ("1M", 2**20), ("auto", None))
        ),
        (("--max-model-len=auto",), lambda flags: flags.text("max-model-len"), "auto"),
        # Switches are on, off or left out.
        *(
            (words, lambda flags: flags.on("enable-prefix-caching"), on)
            for words, on in (
                (("--enable-prefix-caching",), True),
                (("--no-enable-prefix-caching",), False),
                (("--no-enable-prefix-c",), False),
                ((), None),
            )
        ),
        # JSON comes whole or in pieces, which replace a complete value wherever they are.
        *((words, lambda flags: (flags.speculative_tokens, flags.uses_mtp), (2, True)) for words in DRAFTS),
        *(
            ((f"--speculative-config={text}",), lambda flags: flags.speculative_tokens, 0)
            for text in ("{broken", "text", '{"num_speculative_tokens": "many"}')
        ),
        (
            ('--speculative-config={"method":"ngram","num_speculative_tokens":4}',),
            lambda flags: (flags.speculative_tokens, flags.uses_mtp),
            (4, False),
        ),
        (
            ("--compilation-config.backend=x", '--compilation-config={"mode": 3}'),
            lambda flags: flags.json("compilation-config"),
            {"backend": "x"},
        ),
        # The first of several names is the one in answers.
        (("--served-model-name", "one", "two", "--port=1"), lambda flags: flags.text("served-model-name"), "one"),
        # Engines of a pod are its local ranks.
        (("-dp=16", "-dpl=8"), lambda flags: flags.engines, 8),
        # Short forms may be followed by their value.
        (("-n2",), lambda flags: flags.options, {"nnodes": "2"}),
        (("-cc.mode=3",), lambda flags: flags.options, {"compilation-config": {"mode": "3"}}),
        (("-cc.mode", "3"), lambda flags: flags.options, {"compilation-config": {"mode": "3"}}),
        (("-Odecode",), lambda flags: flags.options, {"optimization-level": "decode"}),
        (("-qawq",), lambda flags: flags.options, {"quantization": "awq"}),
    ],
)
def test_every_spelling_that_vllm_takes_is_one_option(
    words: tuple[str, ...], read_as: Callable[[Flags], object], value: object
) -> None:
    assert read_as(serve(*words)) == value


def test_a_switch_does_not_swallow_the_next_word() -> None:
    flags = read("vllm", "serve", "--enable-prefix-caching", "model")
    assert (flags.on("enable-prefix-caching"), flags.model) == (True, "model")


def test_serve_takes_the_model_first_and_the_module_ignores_it_there() -> None:
    assert serve().model == "model"
    assert read("vllm", "serve", "--model=other").model == "other"
    module = read("python3", "-m", "vllm.entrypoints.openai.api_server", "ignored", "--model", "used")
    assert (module.entrypoint, module.model) == ("module", "used")


def test_api_servers_follow_the_entry_point() -> None:
    assert serve("-dp", "8").api_servers == 8
    assert serve("-dp", "8", "-asc", "2").api_servers == 2
    assert serve("-dp", "8", "--data-parallel-external-lb", "--data-parallel-rank=0").api_servers == 1
    module = read("python", "-m", "vllm.entrypoints.openai.api_server", "-dp=8", "--api-server-count=4")
    assert (module.api_servers, module.engines) == (1, 8)


@pytest.mark.parametrize(
    "words",
    [
        ("/usr/local/bin/vllm", "serve", "m", "--port=1"),
        ("env", "A=b", "vllm", "serve", "m", "--port=1"),
        ("tini", "--", "vllm", "serve", "m", "--port=1"),
        ("sh", "-c", "vllm serve m --port=1"),
        ("bash", "-lc", "set -e; echo ready && exec vllm serve m \\\n  --port=1 | tee /log"),
        ("/bin/bash", "-ec", "export A=b\nvllm serve 'm' --port 1 &\nwait"),
        ("python3", "-m", "vllm.entrypoints.openai.api_server", "--model=m", "--port=1"),
    ],
)
def test_a_server_is_found_however_it_is_started(words: tuple[str, ...]) -> None:
    flags = read(*words)
    assert (flags.model, flags.count("port")) == ("m", 1)


def test_a_server_behind_the_programs_own_key_wrapper_is_found() -> None:
    engine = profile("record").engine
    plain = vllm_args.args(engine, model_path="/weights/m", served_model_name="m")
    wrapped = api_key.command_with_key("VLLM_API_KEY", vllm_args.COMMAND)
    assert read(*wrapped, *plain) == read(*vllm_args.COMMAND, *plain)


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("python3", "-m", "pod_scripts.launch_clients", "--model=m"),
        ("vllm", "bench", "serve", "--model", "m"),
        ("sh", "-c", "echo 'vllm serve is not run'"),
        ("sh", "-c", "an 'unended quote"),
        ("sh", "/scripts/start.sh"),
    ],
)
def test_other_programs_are_no_server(words: tuple[str, ...]) -> None:
    assert server_arguments(words) is None


@pytest.mark.parametrize(
    ("image", "serves"),
    [
        ("docker.io/vllm/vllm-openai:v0.18.1@sha256:00", True),
        ("vllm/vllm-openai-rocm", True),
        ("registry:5000/mirror/vllm:v1", True),
        ("docker.io/alpine/git:v2", False),
        ("lmcache/lmstack-router:latest", False),
        ("", False),
    ],
)
def test_the_public_image_serves_by_itself(image: str, serves: bool) -> None:
    assert is_server_image(image) is serves


def refused(flags: Flags, version: str) -> list[str]:
    return [one.option for one in mistakes(flags, find(version))]


def test_what_the_parser_would_exit_on_is_told() -> None:
    wrong = serve("--disable-log-requests", "--enable-prefix-caching=true", "--max-num-seqs=8")
    assert refused(wrong, "0.18.1") == ["disable-log-requests", "enable-prefix-caching"]
    # From 0.33 on it is the other side of --enable-log-requests.
    assert refused(wrong, "0.33.0") == ["enable-prefix-caching"]
    assert wrong.on("enable-log-requests") is False


def test_a_word_that_is_no_choice_of_the_release_is_told() -> None:
    flags = serve("--mamba-cache-mode=all", "--gdn-prefill-backend=cutedsl", "--mamba-ssm-cache-dtype=bfloat16")
    assert refused(flags, "0.18.1") == ["gdn-prefill-backend", "mamba-ssm-cache-dtype"]
    assert refused(flags, "0.33.0") == ["mamba-cache-mode"]


@each_row(
    ("argument", "is_refused"),
    [
        ("--max-logprobs=abc", True),
        ("--max-logprobs=1.5", True),
        ("--max-logprobs=None", False),
        ("--max-logprobs=-1", False),
        ("--max-logprobs", True),
        ("--gpu-memory-utilization=.9", False),
        ("--gpu-memory-utilization=high", True),
        ("--max-model-len=16k", False),
        ("--max-model-len=1.5k", False),
        ("--max-model-len=1.5K", True),
        ("--max-model-len=auto", False),
        ("--max-num-seqs=1k", True),
        ("--max-num-seqs.x=1", True),
        ('--kv-events-config={"buffer_steps": 10k}', False),
        ('--kv-events-config={"publisher": 10k"}', True),
        ("--kv-events-config=zmq", True),
        ("--compilation-config=" + "[" * 100_000, True),
        ("--compilation-config={" + '"a":{' * 100_000, True),
        ("--max-logprobs=" + "9" * 5_000, True),
        ("--enable-lora=yes", True),
        ("--no-enable-lora=yes", True),
        ("--no-max-logprobs", True),
        ("--enable-l", True),
        ("--trust-rem", False),
    ],
)
def test_a_value_of_another_type_is_told(argument: str, is_refused: bool) -> None:
    assert bool(mistakes(serve(argument), find("0.33.0"))) is is_refused


def test_what_a_server_takes_by_itself_depends_on_its_release_and_gpu() -> None:
    old, new = find("0.18.1"), find("0.33.0")
    taken = {
        gpu: (one.batched_tokens(gpu), one.sequences(gpu)) for one in (old,) for gpu in (B200, H100, A100_80GB, L4)
    }
    assert taken == {B200: (8_192, 1_024), H100: (8_192, 1_024), A100_80GB: (2_048, 256), L4: (2_048, 256)}
    assert [new.batched_tokens(gpu) for gpu in (B200, H100, L4)] == [16_384, 8_192, 2_048]
    assert (old.captured_tokens(B200), new.captured_tokens(B200), new.captured_tokens(H100)) == (512, 1_024, 512)
    assert (old.gpu_memory_share, new.gpu_memory_share) == (0.9, 0.92)


def test_a_release_in_between_is_read_as_the_known_one_before_it() -> None:
    between = of_tag("v0.20.2-cu130")
    assert between is not None
    assert (between.version, between.known, between.table) == ("0.20.2", False, "0.18.1")
    assert between.has("counts-cuda-graphs")
    assert not between.has("caches-prefixes-of-hybrids")
    assert of_tag("v0.18.1") is find("0.18.1")
    assert of_tag("nightly") is None


@each_row("name", NAMES)
def test_every_profile_reads_as_it_was_written(name: str) -> None:
    engine = profile(name).engine
    words = vllm_args.args(engine, model_path="/weights/m", served_model_name="m")
    flags = read(*vllm_args.COMMAND, *words)
    assert render(parse(words[1:]).options) == words[1:]
    assert mistakes(flags, find(engine.version)) == ()
    assert flags.model == "/weights/m"
    assert flags.engines == engine.data_parallel_size
    assert flags.tensor_parallel_size == engine.tensor_parallel_size
    assert flags.api_servers == engine.api_servers
    assert flags.speculative_tokens == engine.speculative_tokens
    assert flags.count("max-model-len") == engine.max_model_len
    assert flags.on("enable-prefix-caching") == engine.enable_prefix_caching
    assert flags.number("gpu-memory-utilization") == engine.gpu_memory_utilization


@pytest.mark.parametrize(("version", "count"), [("0.18.1", 226), ("0.33.0", 321)])
def test_the_table_of_options_is_sorted_and_whole(version: str, count: int) -> None:
    lines = Path(f"facts/data/vllm-{version}-options.txt").read_text(encoding="utf-8").splitlines()[2:]
    names = [line.split()[0] for line in lines]
    assert len(set(names)) == len(names) == count
    assert {line.split()[1] for line in lines} == {"switch", "value", "list", "int", "count", "number", "json"}


def test_reading_never_fails() -> None:
    odd = (
        "--",
        "-",
        "---x",
        "--=3",
        "--a.b.c=1",
        "--a=1",
        "--a.b=2",
        "-0.5",
        "--no-",
        "=",
        "--x=",
        "-=3",
        "--..=1",
        "-.x",
    )
    assert parse(odd).entrypoint == "serve"


def test_an_upgrade_tells_what_changes_for_these_options_alone() -> None:
    old, new = find("0.18.1"), find("0.33.0")
    told = "\n".join(upgrade(old, new, {"max-num-batched-tokens"}, hybrid=True, gpu=B200))
    assert "16,384" not in told
    for words in ("prefix caching is on", "fixed: ", "NVIDIA driver 580", "compile caches start empty"):
        assert words in told
    assert "prefix caching is on" not in "\n".join(upgrade(old, new, (), hybrid=False, gpu=B200))
    on_l4 = "\n".join(upgrade(old, new, (), hybrid=True, gpu=L4))
    assert "B200" not in on_l4
    assert "160 GiB" not in on_l4
    back = list(upgrade(new, old, (), hybrid=True, gpu=B200))
    assert any(line.startswith("no longer: ") for line in back)
    assert any(line.startswith("new defect: ") for line in back)
