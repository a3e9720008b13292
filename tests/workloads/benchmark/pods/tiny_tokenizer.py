"""Makes a folder with a small byte-level BPE tokenizer. Runs with the Python of vLLM's own environment. Argument: FOLDER."""

from __future__ import annotations

import itertools
import sys


def main(folder: str) -> None:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    words = ["".join(letters) for letters in itertools.product("bdfgk", "aeiou", "lmnrs", "aeiou")]
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=4000,
        special_tokens=["<end>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator([" ".join(words[n:] + words[:n]) for n in range(0, len(words), 7)], trainer)
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<end>").save_pretrained(folder)


if __name__ == "__main__":
    main(sys.argv[1])
