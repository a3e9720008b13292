"""A batch in a simulated bucket, and what became of it."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from lab.simulators.bucket import LocalBucket

MODEL: Final = "simulated/model"
ID: Final = "b0123456789ab"
PREFIX: Final = f"batches/{ID}/"
URL: Final = "/v1/completions"


@dataclass(frozen=True, kw_only=True)
class Counted:
    """The results of a batch."""

    lines: Mapping[int, int]
    """How often each input line has a result line."""
    failed: Mapping[str, int]
    """Errors by code."""
    wrong_ids: int
    """Result lines whose custom_id is another's."""

    def is_each_once(self, documents: int) -> bool:
        """Whether every input line has exactly one result line, of its own."""
        return not self.wrong_ids and self.lines == dict.fromkeys(range(1, documents + 1), 1)


def custom_id(n: int) -> str:
    """Id of an input line."""
    return f"document-{n}"


def store_batch(bucket: LocalBucket, prompts: Sequence[str], *, of_shard: int, tokens: int, **terms: Any) -> None:
    """Write a batch of completions as `fleet batch run` does."""
    counts = []
    for number, begin in enumerate(range(0, len(prompts), of_shard)):
        shard = prompts[begin : begin + of_shard]
        lines = [
            {"n": n, "custom_id": custom_id(n), "body": {"model": MODEL, "prompt": prompt, "max_tokens": tokens}}
            for n, prompt in enumerate(shard, begin + 1)
        ]
        content = "".join(json.dumps(line) + "\n" for line in lines).encode()
        bucket.put(f"{PREFIX}shards/{number:05d}.jsonl", content)
        counts.append(len(shard))
    batch = {
        "version": 1,
        "id": ID,
        "name": "documents",
        "url": URL,
        "model": MODEL,
        "documents": len(prompts),
        "shards": len(counts),
        "counts": counts,
    }
    bucket.put(f"{PREFIX}batch.json", json.dumps(batch).encode())
    store_terms(bucket, **terms)


def store_terms(bucket: LocalBucket, **terms: Any) -> None:
    """Begin a run, or continue the batch."""
    given = {
        "began": time.time(),
        "servers": 1,
        "deadline": None,
        "maxUsd": None,
        "usdPerServerHour": None,
        "usdPerHourFixed": 0.0,
        "startSeconds": 0.0,
        "idleSeconds": 0.0,
        "requestSeconds": 600.0,
        "onDone": "pause",
        **terms,
    }
    bucket.put(f"{PREFIX}terms.json", json.dumps(given).encode())
    with bucket.lock:
        bucket.objects.pop(f"{PREFIX}stop.json", None)


def read(bucket: LocalBucket, name: str) -> dict[str, Any] | None:
    """An object of the batch."""
    with bucket.lock:
        stored = bucket.objects.get(f"{PREFIX}{name}")
    return json.loads(stored.content) if stored else None


def names(bucket: LocalBucket, folder: str) -> list[str]:
    """Names of the batch's objects below a folder."""
    with bucket.lock:
        return sorted(name for name in bucket.objects if name.startswith(f"{PREFIX}{folder}"))


def result_lines(bucket: LocalBucket) -> Iterator[dict[str, Any]]:
    """Every line of every result."""
    for name in names(bucket, "results/"):
        for line in bucket.objects[name].content.splitlines():
            yield json.loads(line)


def counted(bucket: LocalBucket) -> Counted:
    """What became of the batch's lines."""
    lines: Counter[int] = Counter()
    failed: Counter[str] = Counter()
    wrong = 0
    for line in result_lines(bucket):
        n = int(line["id"].rpartition("-")[2])
        lines[n] += 1
        wrong += line["custom_id"] != custom_id(n)
        if line["error"]:
            failed[line["error"]["code"]] += 1
    return Counted(lines=dict(lines), failed=dict(failed), wrong_ids=wrong)
