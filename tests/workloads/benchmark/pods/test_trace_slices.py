"""Each client's part of a dataset: no line twice before all were sent, wrong lines named, large files read piece by piece."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.benchmark import VLLM_PYTHON, needs_vllm
from tests.workloads.benchmark.pods import tiny_tokenizer
from tests.workloads.benchmark.pods.test_bench_client import ROOT
from tests.workloads.benchmark.pods.test_run_plan import plan_of
from workloads.benchmark.pods import trace_slices
from workloads.benchmark.pods.prompt_text import Asked, PromptError, Writer
from workloads.benchmark.pods.run_plan import Plan
from workloads.benchmark.pods.trace_slices import DatasetError, Slices, read_sharegpt, read_trace

PREFIX = {
    "random-prefix-len": "512",
    "random-input-len": "384",
    "random-output-len": "384",
    "random-range-ratio": "0.3333",
}


def plan(
    folder: Path, kind: str, *, clients: int = 3, prompts: int = 4, repeats: int = 2, arguments: Any = None
) -> Plan:
    workload = {"name": kind, "kind": kind, "arguments": arguments or {}, "ignore_eos": True}
    points = [{"connections": 100, "clients": clients}]
    return plan_of(folder, workload=workload, points=points, prompts_per_client=prompts, repeats=repeats)


def trace_of(folder: Path, lines: int) -> Path:
    file = folder / "trace.jsonl"
    # Lines of different lengths, some empty, two kinds of line ends.
    text = "".join(
        json.dumps({"prompt": "ü" * (n % 7 + 1), "output_tokens": n + 1, "t": 0.1}, ensure_ascii=False)
        + ("\r\n" if n % 2 else "\n\n")
        for n in range(lines)
    )
    file.write_bytes(text.rstrip("\n").encode())
    return file


def lines_of(slices: Slices, file: Path, run: int, client: int) -> list[Any]:
    slices.write(slices.plan.runs[run], client, file)
    return [json.loads(line) for line in file.read_text().splitlines()]


@given(lines=st.integers(1, 60), clients=st.integers(1, 5), prompts=st.integers(1, 6), repeats=st.integers(1, 3))
def test_no_line_of_a_trace_is_sent_twice_before_all_were_sent(
    tmp_path_factory: pytest.TempPathFactory, lines: int, clients: int, prompts: int, repeats: int
) -> None:
    folder = tmp_path_factory.getbasetemp()
    asked = plan(folder, "trace", clients=clients, prompts=prompts, repeats=repeats)
    slices = Slices(asked, trace_of(folder, lines), folder)
    sent = [number for run in asked.runs for client in range(clients) for number in slices.numbers(run, client)]
    assert len(sent) == clients * prompts * repeats
    counts = [sent.count(number) for number in range(lines)]
    assert max(counts) - min(counts) <= 1


def test_a_clients_part_keeps_the_traces_order_and_its_lines_as_they_are(tmp_path: Path) -> None:
    asked = plan(tmp_path, "trace")
    slices = Slices(asked, trace_of(tmp_path, 24), tmp_path)
    one = lines_of(slices, tmp_path / "slice", 1, 2)
    assert [line["output_tokens"] for line in one] == [15, 18, 21, 24]
    assert one[0] == {"prompt": "ü", "output_tokens": 15, "t": 0.1}


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("{", "is not JSON: '{'"),
        ("[1]", r"is \[1\]; an object with prompt or input_tokens, and output_tokens, is needed"),
        ('{"prompt": "a"}', "has no output_tokens"),
        ('{"output_tokens": 3}', "has neither prompt nor input_tokens"),
        ('{"prompt": "a", "output_tokens": 0}', "output_tokens is 0; a whole number from 1 to 10,000,000 is allowed"),
        ('{"prompt": "a", "output_tokens": 2.0}', r"output_tokens is 2\.0; a whole number"),
        ('{"prompt": "a", "output_tokens": true}', "output_tokens is True; a whole number"),
        ('{"input_tokens": "7", "output_tokens": 2}', "input_tokens is '7'; a whole number"),
        ('{"prompt": "", "output_tokens": 2}', "prompt is ''; a text or a list of token ids, not empty"),
        ('{"prompt": [1, -2], "output_tokens": 2}', r"prompt is \[1, -2\]; a text or a list of token ids"),
    ],
)
def test_a_wrong_line_is_named_with_its_number_and_value(tmp_path: Path, line: str, complaint: str) -> None:
    file = tmp_path / "trace.jsonl"
    file.write_text('{"prompt": [1, 2], "output_tokens": 2}\n\n' + line + "\n")
    with pytest.raises(DatasetError, match=f"^trace.jsonl, line 3:? {complaint}"):
        read_trace(file)


def test_a_file_without_anything_is_refused(tmp_path: Path) -> None:
    (tmp_path / "trace.jsonl").write_text("\n\n")
    with pytest.raises(DatasetError, match="has no lines"):
        read_trace(tmp_path / "trace.jsonl")
    with pytest.raises(DatasetError, match=r"cannot read .*none: No such file"):
        read_trace(tmp_path / "none")
    with pytest.raises(DatasetError, match="workload trace is of kind trace and needs --dataset=FILE"):
        Slices(plan(tmp_path, "trace"), None, tmp_path)


def conversations(count: int) -> list[dict[str, Any]]:
    return [
        {
            "id": str(n),
            "conversations": [{"from": "human", "value": f"Frage {n} ü€😀"}, {"from": "gpt", "value": f"answer {n}"}],
        }
        for n in range(count)
    ]


def sharegpt(folder: Path, entries: Any, **how: Any) -> Path:
    file = folder / "sharegpt.json"
    file.write_text(json.dumps(entries, ensure_ascii=False, **how), encoding="utf-8")
    return file


@pytest.mark.parametrize("block", [1, 7, 64, 1 << 20])
@pytest.mark.parametrize("how", [{}, {"indent": 2}])
def test_conversations_are_read_in_blocks_of_any_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int, how: dict[str, Any]
) -> None:
    monkeypatch.setattr(trace_slices, "BLOCK_BYTES", block)
    whole = conversations(12)
    odd = [*whole, {"id": "none"}, {"conversations": whole[0]["conversations"][:1]}, whole[3], *conversations(14)[12:]]
    lines = read_sharegpt(sharegpt(tmp_path, odd, **how), tmp_path / "out")
    read = [json.loads(line)["conversations"] for line in lines.read(range(len(lines)))]
    assert [[turn["value"] for turn in one] for one in read] == [
        [turn["value"] for turn in one["conversations"]] for one in conversations(14)
    ]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ('{"a": 1}', "begins with '{\"a\": 1}'; ShareGPT is a JSON list"),
        ('[{"conversations": []}, 5]', "entry 2 is 5; an object with conversations is needed"),
        ('[{"conversations": 5}]', "entry 1: conversations is 5; a list of turns is needed"),
        (
            '[{"conversations": [{"value": "a"}, {"value": 5}]}]',
            r"entry 1: conversations\[1\] is {'value': 5}; an object with",
        ),
        ('[{"conversations": [', "entry 1 is not JSON"),
        ('[{"id": 1}, {"id": 2}', "ends after entry 2 in the middle of its list: it was cut off"),
        ("[] x", "goes on after its list: 'x'"),
        ("[]", "has no conversation of two turns"),
        ("", "ends after entry 0 in the middle of its list"),
    ],
)
def test_a_wrong_conversation_is_named(tmp_path: Path, text: str, complaint: str) -> None:
    (tmp_path / "sharegpt.json").write_text(text)
    with pytest.raises(DatasetError, match=complaint):
        read_sharegpt(tmp_path / "sharegpt.json", tmp_path / "out")


@given(entries=st.integers(3, 80), clients=st.integers(1, 3), prompts=st.integers(1, 5))
def test_clients_never_share_a_conversation_and_runs_only_when_there_are_too_few(
    tmp_path_factory: pytest.TempPathFactory, entries: int, clients: int, prompts: int
) -> None:
    folder = tmp_path_factory.getbasetemp()
    asked = plan(folder, "sharegpt", clients=clients, prompts=prompts)
    slices = Slices(asked, sharegpt(folder, conversations(entries)), folder)
    runs = [[number for client in range(clients) for number in slices.numbers(run, client)] for run in asked.runs]
    for numbers in runs:
        assert len(set(numbers)) == len(numbers)
    # Each client has what it needs, and spare ones as far as they go.
    wanted = min(prompts, entries // clients)
    assert all(len(numbers) >= clients * wanted for numbers in runs)
    if entries >= clients * prompts * len(runs):
        assert not set(runs[0]) & set(runs[1])
    assert len(list(slices.numbers(asked.runs[0], 0))) <= trace_slices.SPARE * prompts


def test_a_part_of_sharegpt_is_a_list_that_vllm_reads(tmp_path: Path) -> None:
    slices = Slices(plan(tmp_path, "sharegpt"), sharegpt(tmp_path, conversations(50)), tmp_path)
    slices.write(slices.plan.runs[1], 2, tmp_path / "slice")
    entries = json.loads((tmp_path / "slice").read_text())
    assert len(entries) >= 4
    assert all(len(entry["conversations"]) == 2 for entry in entries)
    with pytest.raises(DatasetError, match="2 conversations are too few for 3 clients"):
        list(
            Slices(plan(tmp_path, "sharegpt"), sharegpt(tmp_path, conversations(2)), tmp_path).numbers(
                slices.plan.runs[0], 0
            )
        )


def test_a_shared_prefix_is_the_same_for_all_clients_and_lengths_are_drawn_as_asked(tmp_path: Path) -> None:
    asked = plan(tmp_path, "shared-prefix", prompts=200, arguments=PREFIX)
    slices = Slices(asked, None, tmp_path)
    parts = [lines_of(slices, tmp_path / "slice", run, client) for run in range(2) for client in range(3)]
    lines = [line for part in parts for line in part]
    assert {(line["prefix_tokens"], line["prefix_seed"]) for line in lines} == {(512, asked.first_seed)}
    assert (min(line["input_tokens"] for line in lines), max(line["input_tokens"] for line in lines)) == (768, 1024)
    assert 256 <= min(line["output_tokens"] for line in lines) <= 258
    assert 510 <= max(line["output_tokens"] for line in lines) <= 512
    drawn = [[(line["input_tokens"], line["output_tokens"]) for line in part] for part in parts]
    assert all(one != another for n, one in enumerate(drawn) for another in drawn[n + 1 :])
    # What is drawn from a seed does not change from one writing to the next.
    assert lines_of(slices, tmp_path / "slice", 0, 0) == parts[0]


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"random-prefix-len": "0"}, "are above 0"),
        ({"random-range-ratio": "1.0"}, "random-range-ratio from 0 to below 1"),
        ({"random-input-len": "many"}, "random-input-len is 'many'; a number is needed"),
    ],
)
def test_a_shared_prefix_that_cannot_be_drawn_is_named(tmp_path: Path, change: dict[str, str], complaint: str) -> None:
    with pytest.raises(DatasetError, match=complaint):
        Slices(plan(tmp_path, "shared-prefix", arguments={**PREFIX, **change}), None, tmp_path)
    with pytest.raises(DatasetError, match=r"workload.arguments has no random-prefix-len, which a shared prefix needs"):
        Slices(plan(tmp_path, "shared-prefix", arguments={"random-input-len": "1"}), None, tmp_path)


def test_without_a_tokenizer_a_word_is_a_token() -> None:
    one, other = Writer(None, 1), Writer(None, 2)
    mine, theirs = one.prompt(Asked(20, 8, 5)).split(), other.prompt(Asked(30, 8, 5)).split()
    assert (len(mine), len(theirs)) == (20, 30)
    assert mine[:8] == theirs[:8]
    assert mine[8:12] != theirs[8:12]
    assert one.prompt(Asked(20)) != one.prompt(Asked(20))
    with pytest.raises(PromptError, match="no room for 0 special tokens and a prefix of 8"):
        one.prompt(Asked(7, 8, 5))


@pytest.mark.slow
@needs_vllm
def test_prompts_have_the_tokens_that_were_asked_with_each_kind_of_tokenizer(tmp_path: Path) -> None:
    """Byte-level BPE as it is, with a token in front of every text, and one that writes its spaces as SentencePiece does."""
    subprocess.run([VLLM_PYTHON, tiny_tokenizer.__file__, tmp_path / "plain"], check=True, timeout=120)
    code = f"""
import sys
sys.path.insert(0, {str(ROOT)!r})
from workloads.benchmark.pods.prompt_text import Asked, Writer
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import AutoTokenizer, PreTrainedTokenizerFast
plain = AutoTokenizer.from_pretrained({str(tmp_path / "plain")!r})
begun = AutoTokenizer.from_pretrained({str(tmp_path / "plain")!r})
begun.backend_tokenizer.post_processor = processors.TemplateProcessing(single="<end> $A", special_tokens=[("<end>", 0)])
words = [word[1:] for word in plain.get_vocab() if word[0] == "Ġ"]
pieces = Tokenizer(models.BPE(unk_token="<u>"))
pieces.pre_tokenizer = pre_tokenizers.Metaspace()
pieces.decoder = decoders.Metaspace()
pieces.train_from_iterator([" ".join(words)] * 3, trainers.BpeTrainer(vocab_size=3000, special_tokens=["<u>"]))
for tokenizer in (plain, begun, PreTrainedTokenizerFast(tokenizer_object=pieces)):
    first, second = Writer(tokenizer, 1), Writer(tokenizer, 2)
    special = len(tokenizer("").input_ids)
    prompts = [writer.prompt(Asked(n, 40, 9)) for n in range(60, 300) for writer in (first, second)]
    ids = [tokenizer(prompt).input_ids for prompt in prompts]
    assert [len(one) for one in ids] == [n for n in range(60, 300) for _ in range(2)], "lengths"
    assert len({{tuple(one[:40 + special]) for one in ids}}) == 1, "prefix"
    assert len(set(prompts)) == len(prompts), "unique"
print("all as asked")
"""
    done = subprocess.run([VLLM_PYTHON, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == "all as asked", done.stderr[-3000:]


@pytest.mark.slow
@needs_vllm
def test_vllms_own_sharegpt_reads_the_parts_without_a_prompt_in_two_of_them(tmp_path: Path) -> None:
    subprocess.run([VLLM_PYTHON, tiny_tokenizer.__file__, tmp_path / "tokenizer"], check=True, timeout=120)
    entries = [
        {"conversations": [{"value": f"bala {n} " + "bale " * 6}, {"value": "bali " * (4 + n % 9)}]} for n in range(60)
    ]
    slices = Slices(plan(tmp_path, "sharegpt", clients=2, prompts=10), sharegpt(tmp_path, entries), tmp_path)
    for client in range(2):
        slices.write(slices.plan.runs[0], client, tmp_path / f"slice-{client}")
    code = """
import sys, json
from transformers import AutoTokenizer
from vllm.benchmarks.datasets import ShareGPTDataset
tokenizer = AutoTokenizer.from_pretrained(sys.argv[1])
print(json.dumps([[(one.prompt, one.expected_output_len) for one in
    ShareGPTDataset(random_seed=3, dataset_path=path).sample(tokenizer=tokenizer, num_requests=10)] for path in sys.argv[2:]]))
"""
    command = [VLLM_PYTHON, "-c", code, tmp_path / "tokenizer", tmp_path / "slice-0", tmp_path / "slice-1"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    one, other = json.loads(done.stdout.splitlines()[-1])
    prompts = [prompt for prompt, _ in [*one, *other]]
    assert len(prompts) == len(set(prompts)) == 20
    assert len({length for _, length in one}) > 3
