from __future__ import annotations

from collections import Counter

from lab.batch_proof.stored import counted, names, read, result_lines, store_batch
from lab.simulators.local_server import Answer
from tests.workloads.batch.played import answered, batches, client, run_all, said, serving


def prompts(number: int) -> list[str]:
    return [f"text {n}" for n in range(1, number + 1)]


def test_two_clients_answer_every_line_once_and_leave_nothing_but_results() -> None:
    with batches() as bucket, serving() as server:
        store_batch(bucket, prompts(200), of_shard=16, tokens=5, servers=2)
        assert run_all(client(bucket, server), client(bucket, server, index=1)) == ["done", "done"]
        assert counted(bucket).is_each_once(200)
        assert names(bucket, "leases/") == names(bucket, "parts/") == []
        summary, progress = read(bucket, "summary.json"), read(bucket, "progress.json")
        assert summary is not None
        assert progress is not None
        assert (summary["documents"], summary["succeeded"], summary["failed"]) == (200, 200, 0)
        assert (summary["inputTokens"], summary["outputTokens"]) == (400, 1000)
        assert (progress["state"], progress["done"], progress["shardsDone"]) == ("done", 200, 13)
        first = next(result_lines(bucket))
        assert first["response"]["status_code"] == 200
        assert first["response"]["body"]["choices"][0]["text"] == "of text 1"
        assert first["error"] is None


def test_a_bad_document_ends_on_its_own_line() -> None:
    tried: Counter[str] = Counter()

    def answer(prompt: str) -> Answer | None:
        tried[prompt] += 1
        if prompt == "text 3":
            return said(400, "too long")
        if prompt == "text 5":
            return said(500)
        if prompt == "text 7":
            return None
        if prompt == "text 9" and tried[prompt] < 3:
            return said(503)
        return answered(prompt)

    with batches() as bucket, serving(answer=answer) as server:
        store_batch(bucket, prompts(40), of_shard=16, tokens=5)
        assert run_all(client(bucket, server, speed=600)) == ["done"]
        found = counted(bucket)
        assert found.is_each_once(40)
        assert found.failed == {"http-400": 1, "http-500": 1, "connection-broken": 1}
        assert (tried["text 3"], tried["text 5"], tried["text 7"], tried["text 9"]) == (1, 5, 5, 3)
        lines = {line["id"].rpartition("-")[2]: line for line in result_lines(bucket)}
        assert lines["3"]["response"]["body"]["error"]["message"] == "too long"
        assert lines["7"]["response"] is None
        summary = read(bucket, "summary.json")
        assert summary is not None
        assert summary["failedByCode"] == found.failed
