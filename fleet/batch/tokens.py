"""Counts the tokens of prompts with the model's own tokenizer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from facts.user_error import UserError
from fleet.batch.requests import Request

# Tokens that a chat template adds. Assumed, from the public templates of the catalogue's families (recalled, unverified): a message has two
# (Mistral) to six (Llama); a request has none to a hundred: the beginning of the answer, a default system prompt with dates; tools come
# with up to 400 tokens of instructions. A longer default system prompt is not counted.
_OF_A_MESSAGE: Final = (2, 6)
_OF_A_REQUEST: Final = (0, 100)
_OF_TOOLS: Final = (0, 400)
_MOST_AT_ONCE: Final = 4 * 2**20
"""Bytes of texts that are counted together, on all cores. Assumed: enough for each core, and little memory."""
MOST_OF_A_TOKENIZER: Final = 100_000_000
"""Bytes of a tokenizer.json. Assumed: three times the largest of the catalogue's families."""


@dataclass(frozen=True, slots=True)
class Span:
    """Tokens of a prompt, or a mean of them: an interval where the chat template is not rendered."""

    low: float
    high: float

    @property
    def middle(self) -> float:
        """Halfway."""
        return (self.low + self.high) / 2


def template_span(request: Request) -> Span:
    """What the chat template adds to a request; nothing to a completion."""
    if not request.messages:
        return Span(0, 0)
    low, high = (
        request.messages * _OF_A_MESSAGE[end] + _OF_A_REQUEST[end] + request.has_tools * _OF_TOOLS[end]
        for end in (0, 1)
    )
    return Span(low, high)


class NoCounter:
    """Stands for a tokenizer that is missing: prompts have no tokens, so none is too long."""

    def count(self, requests: Iterable[Request]) -> Iterator[Span]:
        """Nothing of each request."""
        for _ in requests:
            yield Span(0, 0)


class Counter:
    """Counts prompts. Raises UserError for a file that is no tokenizer."""

    def __init__(self, content: bytes, name: str) -> None:
        # A Rust library: loading it takes longer than `fleet --help`.
        from tokenizers import Tokenizer

        try:
            self._tokenizer = Tokenizer.from_str(content.decode())
        except Exception as error:  # the library raises nothing more exact
            raise UserError(f"{name}: not a tokenizer.json: {str(error)[:200]}") from None
        # Both would hide the length of a prompt.
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self._special = len(self._tokenizer.encode("").ids)
        self.name = name
        self.vocabulary: int = self._tokenizer.get_vocab_size()

    def count(self, requests: Iterable[Request]) -> Iterator[Span]:
        """The tokens of each request's prompt, in order."""
        waiting: list[Request] = []
        size = 0
        for request in requests:
            waiting.append(request)
            size += request.size
            if size >= _MOST_AT_ONCE:
                yield from self._count(waiting)
                waiting, size = [], 0
        yield from self._count(waiting)

    def _count(self, requests: list[Request]) -> Iterator[Span]:
        texts = [text for request in requests for text in request.texts]
        lengths = iter([len(one) for one in self._tokenizer.encode_batch_fast(texts, add_special_tokens=False)])
        for request in requests:
            tokens = sum(next(lengths) for _ in request.texts)
            tokens += 0 if request.messages else self._special
            template = template_span(request)
            yield Span(tokens + template.low, tokens + template.high)
