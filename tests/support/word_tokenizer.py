"""Makes a tokenizer of words, so that a simulated server, which counts words, counts vLLM's client's tokens. Runs with the Python of
vLLM's own environment. Argument: FOLDER.

Every token is a space and a word of six letters, the form in which byte-level tokenizers write words inside a text.
"""

from __future__ import annotations

import itertools
import sys

WORDS = 65_536
"""Assumed: vLLM 0.18.1 makes a random prompt of consecutive tokens from a random one on, so prompts of one length repeat as often
as two of them begin at the same word. Some hundreds of prompts rarely do with so many words, and it still loads in a moment."""


def main(folder: str) -> None:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    parts = ["".join(pair) for pair in itertools.product("bdfgklmnprstvz", "aeiou")]
    words = ("".join(word) for word in itertools.islice(itertools.product(parts, repeat=3), WORDS))
    vocabulary = {"<unk>": 0, **{f"Ġ{word}": number for number, word in enumerate(words, start=1)}}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="<unk>").save_pretrained(folder)


if __name__ == "__main__":
    main(sys.argv[1])
