"""Reads a batch's file twice: every line for what it asks, then those whose tokens are counted. Memory is flat but for the ids' hashes."""

from __future__ import annotations

import heapq
import random
from array import array
from collections import Counter as Tally
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from hashlib import blake2b
from math import sqrt
from pathlib import Path
from typing import BinaryIO, Final

from facts.finding import Finding
from facts.user_error import UserError
from fleet.batch.requests import Form, LineError, Request
from fleet.batch.tokens import Counter, NoCounter, Span, template_span

MOST_LINE_BYTES: Final = 40_000_000
"""Assumed: ten times a prompt of a million tokens."""
MOST_NAMED: Final = 20
"""Bad lines that are named; more are counted. Assumed: a terminal's page."""
LONGEST_COUNTED: Final = 50
"""Lines with the most bytes, which are always counted. Assumed: the longest in tokens is among them."""
_DEVIATIONS: Final = 1.96
"""Standard errors on each side of the mean: 95 % of a normal distribution."""
_MOST_MODELS: Final = 20
_CHUNK: Final = 2**20


@dataclass(frozen=True, slots=True)
class Line:
    """One line as it stands in the file. `data` is None if it is longer than the limit."""

    number: int
    offset: int
    data: bytes | None
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """What a server can take, tokens of prompt and answer."""

    least: int
    """Context of the servers that are planned first. A line that may not fit by its bytes is counted."""
    most: int
    """Context of any that could be planned. A longer line is refused."""
    whose: str
    """What has it, e.g. "profile serve-batch"."""


@dataclass(slots=True, kw_only=True)
class Scan:
    """What a file holds."""

    documents: int = 0
    url: str = ""
    input_tokens: Span = field(default_factory=lambda: Span(0, 0))
    """Mean of a prompt: from the low to the high end of sample and template."""
    longest_input: int = 0
    """Of the prompts that were counted."""
    counted: int = 0
    """Prompts whose tokens were counted."""
    unlimited: int = 0
    """Lines without a limit of output tokens."""
    first_unlimited: int = 0
    """Number of the first of them."""
    most_output: int = 0
    """Largest limit of output tokens."""
    output_limits: int = 0
    """Sum of the limits."""
    models: Tally[str] = field(default_factory=Tally)
    """Lines by the model that they name."""
    bad: int = 0
    findings: list[Finding] = field(default_factory=list)
    """The first bad lines."""


def lines_of(file: BinaryIO) -> Iterator[Line]:
    """The lines that are not blank, with their numbers in the file."""
    number = offset = 0
    while data := file.readline(MOST_LINE_BYTES + 1):
        number += 1
        start, offset = offset, offset + len(data)
        if len(data) > MOST_LINE_BYTES and not data.endswith(b"\n"):
            while rest := file.readline(_CHUNK):
                offset += len(rest)
                if rest.endswith(b"\n"):
                    break
            yield Line(number, start, None, offset - start)
        elif data.strip():
            yield Line(number, start, data, len(data))


def scan(
    path: Path,
    form: Form,
    counter: Counter | NoCounter,
    context: Context,
    *,
    id_key: str = "custom_id",
    sample: int,
    seed: int = 0,
    seen: Callable[[Line, Request], None] = lambda _line, _request: None,
) -> Scan:
    """Read the whole file. `seen` gets each good line. Raises UserError if it is no file or has no line, OSError if it cannot be read."""
    if path.is_dir():
        raise UserError(f"{path}: a folder; pass one file")
    if not path.is_file():
        raise UserError(f"{path}: not a file; a batch is read twice, so it cannot be a pipe")
    with path.open("rb") as file:
        return _Scanner(file, form, counter, context, id_key, sample, seed).scan(path, seen)


class _Scanner:
    def __init__(
        self,
        file: BinaryIO,
        form: Form,
        counter: Counter | NoCounter,
        context: Context,
        id_key: str,
        sample: int,
        seed: int,
    ) -> None:
        self._id_key = id_key
        self._file, self._form, self._counter, self._context = file, form, counter, context
        self._sample, self._random = sample, random.Random(seed)  # noqa: S311 - a sample, not a secret
        self._found = Scan()
        self._ids = _Ids()
        self._all = _Sum()
        """Lines that are counted whatever the sample is."""
        self._drawn: list[int] = []
        """Offsets of the sample."""
        self._longest: list[tuple[int, int]] = []
        """Sizes and offsets of the longest."""
        self._rest = 0

    def scan(self, path: Path, seen: Callable[[Line, Request], None]) -> Scan:
        found = self._found
        for line, request, span in self._counted(self._requests(lines_of(self._file))):
            if request is None:
                continue
            if span is not None:
                if self._fits(line, request, span):
                    self._all.add(span)
            else:
                self._draw(line.offset, request.size)
            self._add(line, request)
            seen(line, request)
        self._refuse_twice()
        if not found.documents and not found.bad:
            raise UserError(f"{path}: no line; write one request on each")
        if not found.bad:
            self._count_sample()
        return found

    def _requests(self, lines: Iterable[Line]) -> Iterator[tuple[Line, Request | None]]:
        """Each line with its request; None for a bad one."""
        for line in lines:
            try:
                yield line, self._request(line)
            except LineError as error:
                self._refuse(line.number, error)
                yield line, None
                if error.of_file and not self._found.documents and self._found.bad == 1:
                    # Each line after it would say the same.
                    return

    def _request(self, line: Line) -> Request:
        if line.data is None:
            raise LineError(
                "too-long",
                found=f"{line.size / 1e6:,.1f} MB",
                allowed=f"{MOST_LINE_BYTES / 1e6:g} MB on a line",
                why="no model of the catalogue has a context for it",
                write="several documents",
            )
        request = self._form(line.data)
        found = self._found
        if found.url and request.url != found.url:
            raise LineError(
                "url-other",
                "url",
                found=request.url,
                allowed=f"{found.url}, that of the lines before",
                why="a file is one kind of request, with one length of answers",
                write="a file for each url",
            )
        found.url = request.url
        self._ids.add(request.id, line.number)
        return request

    def _counted(
        self, requests: Iterable[tuple[Line, Request | None]]
    ) -> Iterator[tuple[Line, Request | None, Span | None]]:
        """Counts at once what may not fit by its bytes."""
        for line, request in requests:
            if request is None or not self._may_not_fit(request):
                yield line, request, None
            else:
                (span,) = self._counter.count([request])
                yield line, request, span

    def _may_not_fit(self, request: Request) -> bool:
        return request.size + template_span(request).high + (request.most_output or 1) > self._context.least

    def _fits(self, line: Line, request: Request, span: Span) -> bool:
        answer = request.most_output or 1
        if span.low + answer <= self._context.most:
            return True
        asked = f"{answer:,} of answer" if request.most_output else "an answer"
        self._refuse(
            line.number,
            LineError(
                "over-context",
                found=f"{span.low:,.0f} tokens and {asked}",
                allowed=f"{self._context.most:,} tokens: the context of {self._context.whose}",
                why="vLLM refuses the request",
                write="a shorter document, a lower max_tokens, or another --profile or --model",
            ),
        )
        return False

    def _add(self, line: Line, request: Request) -> None:
        found = self._found
        found.documents += 1
        if request.most_output is None:
            found.unlimited += 1
            found.first_unlimited = found.first_unlimited or line.number
        else:
            found.output_limits += request.most_output
            found.most_output = max(found.most_output, request.most_output)
        if request.model is not None and (request.model in found.models or len(found.models) < _MOST_MODELS):
            found.models[request.model] += 1

    def _draw(self, offset: int, size: int) -> None:
        """Algorithm R: each line so far is in the sample with the same probability."""
        if len(self._drawn) < self._sample:
            self._drawn.append(offset)
        elif (place := self._random.randrange(self._rest + 1)) < self._sample:
            self._drawn[place] = offset
        self._rest += 1
        if len(self._longest) < LONGEST_COUNTED:
            heapq.heappush(self._longest, (size, offset))
        else:
            heapq.heappushpop(self._longest, (size, offset))

    def _count_sample(self) -> None:
        """The longest are counted like those that may not fit, so what is drawn is a sample of the others."""
        longest = {offset for _, offset in self._longest}
        drawn = set(self._drawn) - longest
        of_sample = _Sum()
        offsets = sorted(longest | drawn)
        for offset, span in zip(offsets, self._counter.count(map(self._read, offsets)), strict=True):
            (self._all if offset in longest else of_sample).add(span)
        others = self._rest - len(longest)
        low, high = of_sample.mean(others)
        found, all_ = self._found, self._all
        found.counted = all_.count + of_sample.count
        found.longest_input = max(all_.most, of_sample.most)
        found.input_tokens = Span(
            (all_.low + others * low) / found.documents, (all_.high + others * high) / found.documents
        )

    def _read(self, offset: int) -> Request:
        self._file.seek(offset)
        try:
            return self._form(self._file.readline())
        except LineError:
            raise UserError("the file changed while it was read; run the command again") from None

    def _refuse_twice(self) -> None:
        count, named = self._ids.twice(MOST_NAMED)
        self._found.bad += count
        # The ids themselves are not kept: the first are read again.
        self._file.seek(0)
        for line in lines_of(self._file) if named else ():
            if line.number in named and line.data is not None:
                error = LineError(
                    "id-twice",
                    self._id_key,
                    found=self._form(line.data).id,
                    allowed=f"a text that no other line has; line {named[line.number]:,} has it",
                    why="results come in any order and are found by it",
                    write="another id",
                )
                self._name(line.number, error)
            if line.number >= max(named):
                break
        self._found.findings.sort(key=_number_of)
        del self._found.findings[MOST_NAMED:]

    def _refuse(self, number: int, error: LineError) -> None:
        self._found.bad += 1
        if len(self._found.findings) < MOST_NAMED:
            self._name(number, error)

    def _name(self, number: int, error: LineError) -> None:
        self._found.findings.append(
            Finding(
                id=error.id,
                subject=f"line {number}" + (f": {error.key}" if error.key else ""),
                found=error.found,
                allowed=error.allowed,
                why=error.why,
                write=error.write,
            )
        )


def _number_of(finding: Finding) -> int:
    return int(finding.subject.removeprefix("line ").partition(":")[0])


class _Sum:
    """Sums of lengths."""

    def __init__(self) -> None:
        self.count = 0
        self.low = self.high = self._squares = 0.0
        self.most = 0

    def add(self, span: Span) -> None:
        self.count += 1
        self.low += span.low
        self.high += span.high
        self._squares += span.middle**2
        self.most = max(self.most, int(span.high))

    def mean(self, of: int) -> tuple[float, float]:
        """The mean of so many lengths of which these were drawn, from low to high."""
        if not self.count:
            return 0.0, 0.0
        middle = (self.low + self.high) / 2 / self.count
        variance = max(0.0, self._squares / self.count - middle**2) * self.count / max(1, self.count - 1)
        error = _DEVIATIONS * sqrt(variance / self.count * max(0.0, 1 - self.count / of))
        return max(0.0, self.low / self.count - error), self.high / self.count + error


class _Ids:
    """Finds ids that come twice by a hash of 16 bytes and the line's number: 24 bytes a line, and 42 more while they are sorted
    (measured, 2026-11-27, a million ids). Two ids share a hash once in 10**26 files of
    a million lines.
    """

    def __init__(self) -> None:
        self._hashes, self._numbers = array("Q"), array("Q")

    def add(self, id_: str, number: int) -> None:
        self._hashes.frombytes(blake2b(id_.encode(), digest_size=16).digest())
        self._numbers.append(number)

    def twice(self, most: int) -> tuple[int, dict[int, int]]:
        """How many lines have an id of an earlier line. Of the first of them, the number, and that of the line before that has it."""
        if len(self._numbers) < 2:
            return 0, {}
        # Imported here: `fleet --help` needs no numpy.
        import numpy as np

        hashes = np.frombuffer(self._hashes, dtype=np.uint64).reshape(-1, 2)
        numbers = np.frombuffer(self._numbers, dtype=np.uint64)
        order = np.lexsort((hashes[:, 1], hashes[:, 0]))
        same = (hashes[order[1:]] == hashes[order[:-1]]).all(axis=1)
        later, earlier = numbers[order[1:][same]], numbers[order[:-1][same]]
        first = np.argsort(later)[:most]
        return len(later), dict(zip(later[first].tolist(), earlier[first].tolist(), strict=True))
