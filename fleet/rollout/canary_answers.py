"""One short question to every ready pod of a canary, while it is watched."""

from __future__ import annotations

import asyncio
import secrets
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from facts.finding import Finding
from facts.texts import plural
from fleet.clients.errors import LiveError
from fleet.verify import questions
from fleet.verify.client import Client
from fleet.verify.cluster import read_pods, tunnels
from fleet.verify.declared import model_name
from fleet.verify.judgement import answer_of, unsound

if TYPE_CHECKING:
    from fleet.clients.kubectl import Kubectl
    from fleet.verify.facts import Reply
    from settings.stack import Settings

ID: Final = "soak-answers"
ANSWER_SECONDS: Final = 60.0
"""As users' clients wait at most. Assumed."""
FAILURES: Final = 3
"""Requests in a row without an answer until that is told: one may meet a server that just ended."""


class CanaryAnswers:
    """Asks each pod through a port forward, and remembers what was wrong. A prompt names a number, and the answer must have it."""

    def __init__(self, kubectl: Kubectl, settings: Settings, api_key: str | None = None) -> None:
        """`settings`: the stack's. `api_key`: the stack's API key."""
        canary = settings.as_canary
        assert canary is not None
        self._kubectl, self._canary, self._api_key = kubectl, canary, api_key
        self._asked = 0
        self._failures = Counter[str]()
        """Requests in a row without an answer, by pod."""
        self._wrong: dict[str, str] = {}
        """By pod."""

    def ask(self) -> tuple[Finding, ...]:
        """One question to each pod; what all questions so far have found. A wrong or missing answer is an error. Raises LiveError."""
        ready = tuple(pod.name for pod in read_pods(self._kubectl, self._canary) if pod.ready and not pod.going)
        with tunnels(self._kubectl, ready) as forwards:
            replies = asyncio.run(self._replies(forwards.urls))
        for pod, reply in replies.items():
            self._judge(pod, reply)
        if forwards.troubles:
            raise LiveError("; ".join(forwards.troubles.values()))
        return self._findings()

    async def _replies(self, urls: Mapping[str, str]) -> dict[str, Reply]:
        # No tokens before the number: the shortest passage. A salt: computed, not read from the cache.
        body = questions.needle(model_name(self._canary), 0, None, secrets.token_hex(8))
        async with Client(api_key=self._api_key) as client:
            asked = (client.post(url, "/v1/completions", body, ANSWER_SECONDS) for url in urls.values())
            return dict(zip(urls, await asyncio.gather(*asked), strict=True))

    def _judge(self, pod: str, reply: Reply) -> None:
        self._asked += 1
        if not reply.ok:
            self._failures[pod] += 1
            if self._failures[pod] >= FAILURES:
                self._wrong[pod] = f"no answer, {self._failures[pod]} times in a row: {reply.summary}"
            return
        self._failures[pod] = 0
        answer = answer_of(reply.body)
        if answer is None:
            self._wrong[pod] = "the response is not a completion with log probabilities"
        elif why := unsound(answer.text, answer.tokens):
            self._wrong[pod] = f"{why}: {answer.text[:80]!r}"
        elif questions.NEEDLE not in answer.text:
            self._wrong[pod] = f"without {questions.NEEDLE}: {answer.text[:80]!r}"

    def _findings(self) -> tuple[Finding, ...]:
        if self._wrong:
            return tuple(Finding(id=ID, subject=pod, found=message) for pod, message in self._wrong.items())
        return (
            Finding(
                id=ID,
                subject=self._canary.server.name,
                severity="passed" if self._asked else "unknown",
                found=f"{plural(self._asked, 'question')}, no wrong answer"
                if self._asked
                else "no pod was ready to be asked",
            ),
        )
