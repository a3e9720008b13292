"""The answers probe's program: asks the servers one short question through their Service or its routers, and judges the answer.

The question is greedy, and its answer is known: a word of the prompt. An answer is wrong if it is garbage or lacks that word; it differs
if it is another than usual by more than rounding, as from one replica with a broken GPU. What all replicas say often enough in a row is
the usual answer from then on: a new release. Each finding is one line of JSON in the log.
"""

from __future__ import annotations

import argparse
import http.client
import json
import signal
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from workloads.answers.judgement import Answer, answer_of, difference, question, unsound

WORD: Final = "4711"
PROMPT: Final = (
    f"The code of the safe is {WORD}. The train leaves the station at noon and passes the river, the mill and the orchard.\n"
    "The code of the safe is"
)
TOKENS: Final = 16
INTERVAL_SECONDS: Final = 60.0
# As users' clients wait at most. Assumed.
ANSWER_SECONDS: Final = 60.0
# Requests in a row without an answer until that is told: one may meet a replica that just ended.
FAILURES: Final = 3
# Equal answers in a row that become the usual one.
ACCEPTED: Final = 10
_LEVELS: Final = {"started": "INFO", "changed": "NOTICE", "differs": "WARNING", "wrong": "ERROR", "failed": "ERROR"}


class Probe:
    """One question, asked again and again."""

    def __init__(self, url: str, model: str, key_file: Path | None, tell: Callable[[str, str], None]) -> None:
        self.url, self._model, self._key_file, self._tell = url, model, key_file, tell
        self._usual: Answer | None = None
        self._another: Answer | None = None
        self._times = self._failures = 0
        # No proxy and no redirect: the key goes to the servers only.
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), _NoRedirect())

    def turn(self) -> None:
        """Asks once, and tells what is wrong."""
        try:
            body = self._ask()
        except (OSError, ValueError, http.client.HTTPException) as error:
            self._failures += 1
            if self._failures >= FAILURES:
                self._tell("failed", f"no answer, {self._failures} times in a row: {error}")
            return
        self._failures = 0
        answer = answer_of(body)
        if answer is None:
            self._tell("wrong", "the response is not a completion with log probabilities")
        elif why := unsound(answer.text, answer.tokens) or ("" if WORD in answer.text else f"without {WORD}"):
            self._tell("wrong", f"{why}: {answer.text[:80]!r}")
        else:
            self._compare(answer)

    def _compare(self, answer: Answer) -> None:
        if self._usual is None:
            self._usual = answer
            self._tell("started", f"the usual answer: {answer.text[:80]!r}")
            return
        why = difference(answer, self._usual)
        if not why:
            self._another, self._times = None, 0
            return
        if self._another is None or difference(answer, self._another):
            self._another, self._times = answer, 0
        self._times += 1
        if self._times >= ACCEPTED:
            self._usual, self._another, self._times = self._another, None, 0
            self._tell("changed", f"the usual answer from now on: {answer.text[:80]!r}")
        else:
            self._tell("differs", f"{why}: {answer.text[:80]!r} instead of {self._usual.text[:80]!r}")

    def _ask(self) -> Any:
        headers = {"Content-Type": "application/json"}
        if self._key_file is not None:
            headers["Authorization"] = f"Bearer {self._key_file.read_text().strip()}"
        data = json.dumps(question(self._model, PROMPT, TOKENS)).encode()
        request = urllib.request.Request(f"{self.url}/v1/completions", data, headers)  # noqa: S310 - one fixed host
        with self._opener.open(request, timeout=ANSWER_SECONDS) as response:
            return json.loads(response.read())


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        return None


def log(step: str, message: str) -> None:
    """One line of the pod's log."""
    line = {"event": "answers", "step": step, "severity": _LEVELS[step], "message": message}
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


def options_of(arguments: list[str]) -> argparse.Namespace:
    """The program's options."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--url", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--key-file", type=Path)
    return parser.parse_args(arguments)


def main() -> None:
    """Asks until the pod ends."""
    options = options_of(sys.argv[1:])
    # Process 1 of a container ignores signals that it does not handle.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    probe = Probe(options.url, options.model, options.key_file, log)
    while True:
        probe.turn()
        time.sleep(INTERVAL_SECONDS)


if __name__ == "__main__":
    main()
