"""The direct loop that a batch's client is compared with: threads that send a file's documents and append the answers to another file.

python -m lab.batch_proof.direct URL SHARDS_FILE RESULTS_FILE IN_FLIGHT

No leases, no checkpoints, no second attempt.
"""

from __future__ import annotations

import http.client
import json
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO
from urllib.parse import urlsplit

from lab.batch_proof.stored import ID, URL


def _work(documents: Iterator[bytes], host: str, out: BinaryIO, lock: threading.Lock) -> None:
    while True:
        with lock:
            text = next(documents, None)
        if text is None:
            return
        document = json.loads(text)
        connection = http.client.HTTPConnection(host, timeout=600)
        headers = {"Content-Type": "application/json", "Connection": "close"}
        connection.request("POST", URL, json.dumps(document["body"]), headers)
        response = connection.getresponse()
        answer = {"status_code": response.status, "request_id": "", "body": json.loads(response.read())}
        connection.close()
        line = {"id": f"{ID}-{document['n']}", "custom_id": document["custom_id"], "response": answer, "error": None}
        with lock:
            out.write(json.dumps(line).encode() + b"\n")


def main(url: str, shards: str, results: str, in_flight: int) -> None:
    """Send every document once."""
    lock = threading.Lock()
    with Path(shards).open("rb") as documents, Path(results).open("wb") as out:
        lines = iter(documents)
        host = urlsplit(url).netloc
        threads = [threading.Thread(target=_work, args=(lines, host, out, lock)) for _ in range(in_flight)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]))
