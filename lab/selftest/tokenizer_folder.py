"""A tokenizer of words for the true client: what it calls a token is a word, so the self-test's server counts the same.

Every token is a space and a word of six letters, the form in which byte-level tokenizers write words inside a text. Written as
the two JSON files that the transformers library reads; nothing has to be installed to write them.
"""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Final

WORDS: Final = 65_536
"""Assumed: vLLM 0.18.1 makes a random prompt of consecutive tokens from a random one on, so prompts of one length repeat as often
as two of them begin at the same word. Some hundreds of prompts rarely do with so many words, and it still loads in a moment."""
UNKNOWN: Final = "<unk>"
_CONSONANTS, _VOWELS = "bdfgklmnprstvz", "aeiou"
_SPACE = "Ġ"


def words() -> list[str]:
    """The words, in the vocabulary's order."""
    parts = [f"{first}{second}" for first, second in itertools.product(_CONSONANTS, _VOWELS)]
    return ["".join(word) for word in itertools.islice(itertools.product(parts, repeat=3), WORDS)]


def write_tokenizer(folder: Path) -> Path:
    """Write the files and return the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    vocabulary = {UNKNOWN: 0, **{f"{_SPACE}{word}": number for number, word in enumerate(words(), start=1)}}
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    unknown = {
        "id": 0,
        "content": UNKNOWN,
        "single_word": False,
        "lstrip": False,
        "rstrip": False,
        "normalized": False,
        "special": True,
    }
    tokenizer = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [unknown],
        "normalizer": None,
        "pre_tokenizer": byte_level,
        "post_processor": None,
        "decoder": byte_level,
        "model": {"type": "WordLevel", "vocab": vocabulary, "unk_token": UNKNOWN},
    }
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "unk_token": UNKNOWN,
        "model_max_length": 1_000_000,
        "clean_up_tokenization_spaces": False,
    }
    for name, content in (("tokenizer.json", tokenizer), ("tokenizer_config.json", settings)):
        (folder / name).write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")
    return folder
