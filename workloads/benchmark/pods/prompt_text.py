"""Generate prompts with a given number of tokens and an optional shared prefix.

Prompts are words separated by single spaces, drawn at random from those words of the vocabulary that are one token wherever
they stand. Tokenizers split text at spaces, so a prompt of n words is n tokens and its first p words are its first p tokens,
whatever follows. Every prompt is encoded once to see that this is so, and corrected where it is not.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

POOL = 4096
"""Words to draw from. Assumed: prompts of a dozen of them never repeat by chance."""
TRIES = 8
SPACES = ("Ġ", "▁")
"""How tokenizers write the space in front of a word. Source: byte-level BPE of GPT-2, metaspace of SentencePiece."""


class PromptError(Exception):
    """No prompt of that length exists; the message has the length and the reason."""


@dataclass(frozen=True)
class Asked:
    """Length and prefix of a prompt."""

    input_tokens: int
    """Counted as by the server, with its special tokens."""
    prefix_tokens: int = 0
    prefix_seed: int = 0
    """The same number gives the same prefix."""


class Writer:
    """Generate prompts with a tokenizer of the transformers library; without one a word counts as a token."""

    def __init__(self, tokenizer: Any, seed: int) -> None:
        self._tokenizer = tokenizer
        self._random = random.Random(seed)  # noqa: S311 - prompts, not secrets
        self._special = 0 if tokenizer is None else len(tokenizer("").input_ids)
        self._words = [f"word{number}" for number in range(POOL)] if tokenizer is None else list(_words(tokenizer))
        if len(self._words) < 2:
            raise PromptError(
                "the tokenizer's vocabulary has no words that are one token each: prompts of a wanted length cannot be made; "
                "give a trace with `prompt` in every line"
            )
        self._prefixes: dict[tuple[int, int], list[str]] = {}

    def prompt(self, asked: Asked) -> str:
        """One prompt. Raises PromptError."""
        wanted = asked.input_tokens - self._special
        prefix = self._prefix(asked.prefix_tokens, asked.prefix_seed)
        if wanted < max(1, asked.prefix_tokens):
            raise PromptError(
                f"a prompt of {asked.input_tokens} tokens has no room for {self._special} special tokens and a prefix of "
                f"{asked.prefix_tokens}"
            )
        return " ".join(self._exactly(wanted, prefix, self._random))

    def _prefix(self, tokens: int, seed: int) -> list[str]:
        if tokens == 0:
            return []
        if (tokens, seed) not in self._prefixes:
            # The words are in the vocabulary's order, so all clients draw the same ones.
            source = random.Random(seed)  # noqa: S311
            self._prefixes[tokens, seed] = self._exactly(tokens, [], source)
        return self._prefixes[tokens, seed]

    def _exactly(self, tokens: int, begin: Sequence[str], source: random.Random) -> list[str]:
        words = [*begin, *source.choices(self._words, k=max(0, tokens - len(begin)))]
        for _ in range(TRIES):
            difference = self._count(words) - tokens
            if difference == 0:
                return words
            if difference < 0:
                words += source.choices(self._words, k=-difference)
            else:
                del words[max(len(begin), len(words) - difference) :]
        raise PromptError(f"no words make {tokens} tokens with this tokenizer ({self._count(words)} at last)")

    def _count(self, words: Sequence[str]) -> int:
        if self._tokenizer is None:
            return len(words)
        return len(self._tokenizer(" ".join(words)).input_ids) - self._special


def _words(tokenizer: Any) -> Iterator[str]:
    """The first words of the vocabulary that are one token in the middle of a text."""
    vocabulary: dict[str, int] = tokenizer.get_vocab()
    stem = tokenizer("a", add_special_tokens=False).input_ids
    found = 0
    for token, number in sorted(vocabulary.items(), key=lambda item: item[1]):
        word = token[1:]
        if token[:1] not in SPACES or not (word.isascii() and word.isalpha()):
            continue
        if tokenizer(f"a {word}", add_special_tokens=False).input_ids == [*stem, number]:
            yield word
            found += 1
            if found == POOL:
                return
