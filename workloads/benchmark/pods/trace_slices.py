"""Each client's part of a dataset: of a trace, of ShareGPT's conversations, or of requests with a prefix in common.

A dataset is read once from end to end, line by line or entry by entry, never as a whole; what is kept are the places of its
lines. A run takes up where the one before it ended, and its clients take lines in turn, so that no line is sent twice before all
were sent. Files of lines are what bench_client reads as `custom`, files of conversations what vLLM reads as `sharegpt`.
"""

from __future__ import annotations

import codecs
import json
import math
import random
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

from .run_plan import Plan, Run

MOST_TOKENS = 10_000_000
"""A longer request is a mistake in the file. Assumed: ten times the longest context of any model served with vLLM."""
BLOCK_BYTES = 1 << 20
LONGEST_ENTRY = 64 << 20
"""Characters of one conversation. Assumed: a thousand times ShareGPT's longest; more is a damaged file."""
SPARE = 3.0
"""Conversations for each prompt, where there are enough: vLLM skips prompts below 4 or above 1,024 tokens, answers below 4
tokens and sums above 2,048. Source: is_valid_sequence in vllm/benchmarks/datasets.py 0.18.1. Assumed: a third remain at least."""


class DatasetError(Exception):
    """The dataset is invalid; the message has the line, its value and what is allowed."""


@dataclass(frozen=True)
class Lines:
    """A file of valid lines, and their positions."""

    file: Path
    places: array[int]

    def __len__(self) -> int:
        return len(self.places)

    def read(self, numbers: Iterator[int] | range) -> Iterator[bytes]:
        """Those lines, without their ends."""
        with self.file.open("rb") as file:
            for number in numbers:
                file.seek(self.places[number])
                yield file.readline().rstrip(b"\r\n")


def read_trace(file: Path) -> Lines:
    """A trace: JSON lines with `output_tokens` and `prompt` or `input_tokens`. Raises DatasetError at the first wrong line."""
    places: array[int] = array("Q")
    place = 0
    with _open(file) as source:
        for number, line in enumerate(source, 1):
            if line.strip():
                _check_request(f"{file.name}, line {number}", line)
                places.append(place)
            place += len(line)
    if not places:
        raise DatasetError(f"{file.name} has no lines; a trace has a request in each")
    return Lines(file, places)


def _check_request(where: str, line: bytes) -> None:
    try:
        request = json.loads(line)
    except ValueError as error:
        raise DatasetError(f"{where} is not JSON: {_short(line.decode(errors='replace').strip())} ({error})") from None
    if not isinstance(request, dict):
        raise DatasetError(
            f"{where} is {_short(request)}; an object with prompt or input_tokens, and output_tokens, is needed"
        )
    if "output_tokens" not in request:
        raise DatasetError(f"{where} has no output_tokens: the length of the answer, 1 to {MOST_TOKENS:,}")
    _check_tokens(where, "output_tokens", request["output_tokens"])
    if "prompt" in request:
        prompt = request["prompt"]
        ids = isinstance(prompt, list) and all(_is_whole(token) and token >= 0 for token in prompt)
        if not prompt or not (isinstance(prompt, str) or ids):
            raise DatasetError(
                f"{where}: prompt is {_short(prompt)}; a text or a list of token ids, not empty, is allowed"
            )
    elif "input_tokens" in request:
        _check_tokens(where, "input_tokens", request["input_tokens"])
    else:
        raise DatasetError(f"{where} has neither prompt nor input_tokens; one of them is needed")


def _check_tokens(where: str, key: str, value: Any) -> None:
    if not _is_whole(value) or not 1 <= value <= MOST_TOKENS:
        raise DatasetError(f"{where}: {key} is {_short(value)}; a whole number from 1 to {MOST_TOKENS:,} is allowed")


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def read_sharegpt(file: Path, scratch: Path) -> Lines:
    """ShareGPT's conversations, first two turns of each, one a line in `scratch`; repeated prompts are skipped.

    Raises DatasetError at the first entry that is none. Entries with fewer than two turns are passed over, as vLLM does.
    """
    places: array[int] = array("Q")
    seen: set[bytes] = set()
    place = 0
    with scratch.open("wb") as out:
        for number, entry in enumerate(_entries(file), 1):
            turns = _turns(f"{file.name}, entry {number}", entry)
            if turns is None:
                continue
            mark = blake2b(turns[0].encode(errors="surrogatepass"), digest_size=8).digest()
            if mark in seen:
                continue
            seen.add(mark)
            line = json.dumps({"conversations": [{"value": turn} for turn in turns]}).encode() + b"\n"
            out.write(line)
            places.append(place)
            place += len(line)
    if not places:
        raise DatasetError(f"{file.name} has no conversation of two turns")
    return Lines(scratch, places)


def _turns(where: str, entry: Any) -> list[str] | None:
    if not isinstance(entry, dict):
        raise DatasetError(f"{where} is {_short(entry)}; an object with conversations is needed")
    turns = entry.get("conversations", [])
    if not isinstance(turns, list):
        raise DatasetError(f"{where}: conversations is {_short(turns)}; a list of turns is needed")
    if len(turns) < 2:
        return None
    texts = []
    for position, turn in enumerate(turns[:2]):
        text = turn.get("value") if isinstance(turn, dict) else None
        if not isinstance(text, str):
            raise DatasetError(
                f"{where}: conversations[{position}] is {_short(turn)}; an object with a text as value is needed"
            )
        texts.append(text)
    return texts if texts[0] else None


def _entries(file: Path) -> Iterator[Any]:
    """The entries of a JSON list, without reading the list as a whole."""
    decode = json.JSONDecoder().raw_decode
    to_text = codecs.getincrementaldecoder("utf-8-sig")()
    text, at, number = "", 0, 0
    inside = ended = False
    with _open(file) as source:
        while True:
            block = source.read(BLOCK_BYTES)
            try:
                text = text[at:] + to_text.decode(block, final=not block)
            except UnicodeDecodeError as error:
                raise DatasetError(f"{file.name} is not UTF-8 after entry {number}: {error.reason}") from None
            at = 0
            while True:
                at = _skip(text, at, " \t\r\n")
                if at == len(text):
                    break
                if not inside:
                    if text[at] != "[":
                        raise DatasetError(
                            f"{file.name} begins with {_short(text[at:])}; ShareGPT is a JSON list of conversations"
                        )
                    inside, at = True, at + 1
                elif ended:
                    raise DatasetError(f"{file.name} goes on after its list: {_short(text[at:])}")
                elif text[at] == "]":
                    ended, at = True, at + 1
                elif text[at] == "," and number:
                    at += 1
                else:
                    try:
                        entry, end = decode(text, at)
                    except ValueError as error:
                        # Cut by the block, or invalid: the next block shows which.
                        if not block or len(text) - at > LONGEST_ENTRY:
                            raise DatasetError(f"{file.name}, entry {number + 1} is not JSON: {error}") from None
                        break
                    # A number or word at the end may continue in the next block.
                    if end == len(text) and block:
                        break
                    number, at = number + 1, end
                    yield entry
            if not block:
                if not ended:
                    raise DatasetError(
                        f"{file.name} ends after entry {number} in the middle of its list: it was cut off"
                    )
                return


def _skip(text: str, at: int, characters: str) -> int:
    while at < len(text) and text[at] in characters:
        at += 1
    return at


def _open(file: Path) -> Any:
    try:
        return file.open("rb")
    except OSError as error:
        raise DatasetError(f"cannot read {file}: {error.strerror}") from None


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


class Slices:
    """Write the clients' parts. Created once for a measurement: the dataset is read at the beginning."""

    def __init__(self, plan: Plan, dataset: Path | None, scratch: Path) -> None:
        """Raises DatasetError, also when the workload needs a dataset and there is none."""
        self.plan = plan
        self.lines: Lines | None = None
        if plan.kind in ("sharegpt", "trace"):
            if dataset is None:
                raise DatasetError(f"workload {plan.workload} is of kind {plan.kind} and needs --dataset=FILE")
            self.lines = (
                read_trace(dataset) if plan.kind == "trace" else read_sharegpt(dataset, scratch / "conversations.jsonl")
            )
        elif plan.kind == "shared-prefix":
            self._drawn = _Lengths.of(plan)

    def write(self, run: Run, client: int, file: Path) -> int:
        """Write one client's part; returns its number of requests, 0 where vLLM draws them. Raises DatasetError."""
        if self.plan.kind == "random":
            return 0
        lines = (
            self._drawn.lines(self.plan, run, client)
            if self.lines is None
            else self.lines.read(self.numbers(run, client))
        )
        # ShareGPT's reader takes a list, of which each line here is an entry.
        begin, between, end = (b"[", b",\n", b"]\n") if self.plan.kind == "sharegpt" else (b"", b"\n", b"\n")
        count = 0
        with file.open("wb") as out:
            out.write(begin)
            for line in lines:
                out.write((between if count else b"") + line)
                count += 1
            out.write(end)
        return count

    def numbers(self, run: Run, client: int) -> Iterator[int]:
        """The lines of a client, in order."""
        lines = self.lines
        if lines is None:
            raise DatasetError(f"workload {self.plan.workload} has no dataset")
        wanted, first = self.plan.prompts_per_client, run.first_prompt
        if self.plan.kind == "sharegpt":
            # vLLM repeats conversations of a part with too few; parts of one run never share any.
            most = len(lines) // run.clients
            if most == 0:
                raise DatasetError(
                    f"{len(lines)} conversations are too few for {run.clients} clients: each needs one at least"
                )
            last = self.plan.runs[-1]
            spare = min(SPARE, max(1.0, len(lines) / (last.first_prompt + last.clients * wanted)))
            wanted, first = min(int(spare * wanted), most), int(spare * first)
        for turn in range(wanted):
            yield (first + turn * run.clients + client) % len(lines)


@dataclass(frozen=True)
class _Lengths:
    """Lengths as vLLM draws them for `random`. Source: RandomDataset.get_sampling_params in vllm/benchmarks/datasets.py 0.18.1."""

    prefix: int
    input_low: int
    input_high: int
    output_low: int
    output_high: int

    @classmethod
    def of(cls, plan: Plan) -> _Lengths:
        def number(key: str, convert: type[int] | type[float]) -> Any:
            if key not in plan.arguments:
                raise DatasetError(f"run.json: workload.arguments has no {key}, which a shared prefix needs")
            try:
                return convert(plan.arguments[key])
            except ValueError:
                raise DatasetError(
                    f"run.json: workload.arguments.{key} is {plan.arguments[key]!r}; a number is needed"
                ) from None

        prefix, asked_in, asked_out = (
            number(f"random-{key}", int) for key in ("prefix-len", "input-len", "output-len")
        )
        ratio = number("random-range-ratio", float)
        if not (prefix > 0 and asked_in > 0 and asked_out > 0 and 0.0 <= ratio < 1.0):
            raise DatasetError(
                "run.json: workload.arguments: random-prefix-len, random-input-len and random-output-len are above 0 and "
                "random-range-ratio from 0 to below 1"
            )
        return cls(
            prefix,
            max(1, math.floor(asked_in * (1 - ratio))),
            math.ceil(asked_in * (1 + ratio)),
            max(1, math.floor(asked_out * (1 - ratio))),
            math.ceil(asked_out * (1 + ratio)),
        )

    def lines(self, plan: Plan, run: Run, client: int) -> Iterator[bytes]:
        source = random.Random(plan.seed(run, client))  # noqa: S311 - lengths, not secrets
        for _ in range(plan.prompts_per_client):
            request = {
                "input_tokens": self.prefix + source.randint(self.input_low, self.input_high),
                "output_tokens": source.randint(self.output_low, self.output_high),
                "prefix_tokens": self.prefix,
                # The measurement's, not the client's: all clients share one prefix.
                "prefix_seed": plan.first_seed,
            }
            yield json.dumps(request).encode()
