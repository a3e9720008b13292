"""A small tokenizer, and files of documents."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer, models, pre_tokenizers

_MERGES = [("t", "h"), ("th", "e"), ("Ġ", "the"), ("l", "a"), ("la", "w"), ("Ġ", "law")]
"""`the`, ` the`, `law` and ` law` are one token each; everything else is a token for each byte."""


def tokenizer(folder: Path) -> Path:
    """A tokenizer.json of a byte-level BPE, as the catalogue's models have."""
    names = [*sorted(pre_tokenizers.ByteLevel.alphabet()), *("".join(pair) for pair in _MERGES)]
    made = Tokenizer(models.BPE(vocab={name: number for number, name in enumerate(names)}, merges=_MERGES))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.enable_truncation(4)
    file = folder / "tokenizer.json"
    made.save(str(file))
    return file


def chat(id_: str, text: str, **body: Any) -> dict[str, Any]:
    """A line of a chat in OpenAI's batch format."""
    return {
        "custom_id": id_,
        "method": "POST",
        "url": "/v1/chat/completions",
        "body": {"messages": [{"role": "user", "content": text}], **body},
    }


def completion(id_: str, text: str, **body: Any) -> dict[str, Any]:
    """A line of a completion."""
    return {"custom_id": id_, "method": "POST", "url": "/v1/completions", "body": {"prompt": text, **body}}


def write(file: Path, *lines: Any) -> Path:
    """A JSONL; bytes are written as they are."""
    file.write_bytes(b"".join((one if isinstance(one, bytes) else json.dumps(one).encode()) + b"\n" for one in lines))
    return file


def result(batch: str, document: dict[str, Any], fails: Callable[[str], bool] = lambda _: False) -> bytes:
    """The line of a shard's document, as the pods write it."""
    error = {"code": "http-400", "message": "no"} if fails(document["custom_id"]) else None
    body = {"usage": {"prompt_tokens": 7, "completion_tokens": 3}}
    response = {"status_code": 400 if error else 200, "request_id": "", "body": body}
    line = {"id": f"{batch}-{document['n']}", "custom_id": document["custom_id"], "response": response, "error": error}
    return json.dumps(line).encode() + b"\n"
