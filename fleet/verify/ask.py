"""Sends all requests to a stack's servers: identity, a burst, one prompt twice, one answer. Evaluates nothing.

The load is small: four requests of 64 tokens per engine, one long prompt twice, one answer of a few hundred tokens.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from fleet.clients.metrics_text import MetricsText
from fleet.verify import declared, questions
from fleet.verify.client import Client
from fleet.verify.facts import Burst, Chat, Reply, Routed, Server, Target, Told, Twice

if TYPE_CHECKING:
    from settings.stack import Settings

GREETING_SECONDS: Final = 10.0
"""For /health, /version, /v1/models, /metrics. Equal to the pods' /health probe timeout (workloads/server/pod.py)."""
BURST_SECONDS: Final = 12.0
TWICE_SECONDS: Final = 10.0
CHAT_SECONDS: Final = 20.0
"""Per phase; 52 s with the greeting. Only the long prompt is sent twice, and not again without an answer: one minute in all,
whatever the server does."""
ANSWER_SECONDS: Final = 30.0
"""For one answer to the question of --answers, beside the others."""
TOGETHER: Final = 8
"""Requests with the question that an engine has at once. Assumed: enough for other shapes of a batch than one alone."""
SETTLE_SECONDS: Final = 1.5
"""Maximum lag of counters behind the answers. Assumed: engines report counts with every step."""
_SETTLE_POLL_SECONDS: Final = 0.25
_FINISHED: Final = "vllm:request_success_total"
"""Finished requests, by engine and reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What came back."""

    door: Server | None
    pods: tuple[Server, ...]
    chat: Chat | None = None
    twice: Twice | None = None
    told: tuple[Told, ...] = ()
    routed: Routed | None = None


async def ask(
    settings: Settings,
    *,
    door: Target | None,
    pods: tuple[Target, ...],
    router: Target | None = None,
    one_server: bool,
    api_key: str | None,
    answers: bool = False,
) -> Asked:
    """Query the endpoint and all pods. `one_server`: whether one server answers the endpoint, so that its counters are one server's.
    `answers`: also ask every engine the one question.
    """
    async with Client(api_key=api_key) as client:
        everybody = ([door] if door else []) + list(pods)
        greetings = await asyncio.gather(*(_greet(client, settings, one) for one in everybody))
        greeted = dict(zip(everybody, greetings, strict=True))
        # The pods if any; else the endpoint, if it is a single server.
        alone = [door] if door is not None and not pods and one_server else []
        counted = [pod for pod in (*pods, *alone) if greeted[pod].answers]
        models = {target: _model(settings, server) for target, server in greeted.items()}
        bursts = await asyncio.gather(*(_burst(client, settings, one, models[one]) for one in counted))
        for one, burst in zip(counted, bursts, strict=True):
            greeted[one] = replace(greeted[one], burst=burst)
        routed = None if router is None else await _routed(client, settings, router, counted, models)
        twice = await _twice(client, settings, counted[0], models[counted[0]]) if counted else None
        through = next((one for one in everybody if greeted[one].answers), None)
        told: tuple[Told, ...] = ()
        if answers and through is not None:
            told = await _answers(client, settings, counted, through, models)
        # Last: a stream that times out is left half read, and kubectl closes the whole tunnel of an aborted connection.
        # Source: client-go, tools/portforward, handleConnection.
        chat = None
        if through is not None:
            chat = await client.chat(through, questions.chat(models[through]), CHAT_SECONDS)
    return Asked(
        door=greeted[door] if door else None,
        pods=tuple(greeted[pod] for pod in pods),
        chat=chat,
        twice=twice,
        told=told,
        routed=routed,
    )


async def _greet(client: Client, settings: Settings, target: Target) -> Server:
    url, seconds = target.url, GREETING_SECONDS
    guarded = settings.guards_v1_only

    async def nothing() -> Reply | None:
        return None

    health, models, without_key, version, (metrics, trouble) = await asyncio.gather(
        client.get(url, "/health", seconds),
        client.get(url, "/v1/models", seconds),
        client.get(url, "/v1/models", seconds, with_key=False) if guarded else nothing(),
        client.get(url, "/version", seconds),
        client.metrics(url, seconds),
    )
    if guarded and settings.gateway.enabled and target.name == "endpoint" and health.status == 404:
        # The gateway then routes only /v1; check that it answers there. A rejected key is rejected by a
        # server, which another check reports.
        health = Reply(status=200) if models.status in (401, 403) else models
    return Server(
        name=target.name,
        health=health,
        models=models,
        models_without_key=without_key,
        version=version,
        metrics=metrics,
        metrics_trouble=trouble,
    )


def _model(settings: Settings, server: Server) -> str:
    """The declared model, or the only other one, so that the remaining checks can run."""
    wanted = declared.model_name(settings)
    return wanted if wanted in server.listed else next(iter(server.listed), wanted)


async def _burst(client: Client, settings: Settings, target: Target, model: str) -> Burst:
    ranks = settings.serving.engine.data_parallel_size
    before, _ = await client.metrics(target.url, GREETING_SECONDS)
    replies = await _shorts(client, target, model, ranks * questions.REQUESTS_PER_RANK)
    answered = sum(reply.ok for reply in replies)
    return Burst(
        asked=len(replies),
        answered=answered,
        late=sum(reply.is_late for reply in replies),
        troubles=_troubles(replies),
        before=before,
        after=await _settled(client, target, before, ranks if answered else 0),
    )


async def _shorts(client: Client, target: Target, model: str, number: int) -> list[Reply]:
    seed = secrets.randbits(32)
    bodies = (questions.short(model, seed + each) for each in range(number))
    return await asyncio.gather(*(client.post(target.url, "/v1/completions", one, BURST_SECONDS) for one in bodies))


def _troubles(replies: Sequence[Reply]) -> tuple[str, ...]:
    """The most frequent reasons for a missing answer."""
    counts = Counter(reply.summary for reply in replies if not reply.ok)
    return tuple(words for words, _ in counts.most_common(3))


async def _routed(
    client: Client, settings: Settings, router: Target, pods: list[Target], models: Mapping[Target, str]
) -> Routed:
    """As many requests for each server as `REQUESTS_PER_RANK`, all through one router, and wrong ones. With a port per rank each rank is a
    server.
    """
    ranks = range(settings.rank_ports) if settings.rank_ports > 1 and settings.sees_ranks else None

    async def finished() -> dict[str, float | None]:
        pages = await asyncio.gather(*(client.metrics(pod.url, GREETING_SECONDS) for pod in pods))
        counts: dict[str, float | None] = {}
        for pod, (found, _) in zip(pods, pages, strict=True):
            if found is None or ranks is None:
                counts[pod.name] = None if found is None else found.total(_FINISHED) or 0.0
            else:
                of_rank = found.by("engine", _FINISHED)
                counts |= {f"{pod.name}, rank {rank}": of_rank.get(str(rank), 0.0) for rank in ranks}
        return counts

    model = models[pods[0]] if pods else declared.model_name(settings)
    servers = max(1, len(pods)) * (1 if ranks is None else len(ranks))
    before = await finished()
    replies = await _shorts(client, router, model, servers * questions.REQUESTS_PER_RANK)
    ended = await finished()
    refused: dict[str, Reply] = {}
    if settings.guards_v1_only:
        refused["no key"] = await client.get(router.url, "/v1/models", GREETING_SECONDS, with_key=False)
        refused["a path outside /v1"] = await client.get(router.url, "/metrics", GREETING_SECONDS)
    return Routed(
        router=router.name,
        asked=len(replies),
        answered=sum(reply.ok for reply in replies),
        troubles=_troubles(replies),
        shares={
            name: None if then is None or (now := ended.get(name)) is None else round(now - then)
            for name, then in before.items()
        },
        refused=refused,
    )


async def _settled(client: Client, target: Target, before: MetricsText | None, ranks: int) -> MetricsText | None:
    """A scrape after every rank has made progress, or the last one before the timeout."""
    end = time.monotonic() + SETTLE_SECONDS
    while True:
        after, _ = await client.metrics(target.url, GREETING_SECONDS)
        if before is None or after is None or len(moved(before, after)) >= ranks or time.monotonic() >= end:
            return after
        await asyncio.sleep(_SETTLE_POLL_SECONDS)


def moved(before: MetricsText, after: MetricsText) -> set[str]:
    """Engines that generated tokens between two scrapes."""
    name = "vllm:generation_tokens_total"
    earlier, later = before.by("engine", name), after.by("engine", name)
    return {engine for engine, value in later.items() if value > earlier.get(engine, 0.0)}


async def _twice(client: Client, settings: Settings, target: Target, model: str) -> Twice | None:
    tokens = declared.prompt_to_hit(settings)
    if not settings.serving.caches_prefixes or tokens is None:
        return None
    body = questions.long(model, secrets.randbits(32), tokens)
    before, _ = await client.metrics(target.url, GREETING_SECONDS)
    # Pinned to one engine: each has its own cache.
    first = await client.post(target.url, "/v1/completions", body, TWICE_SECONDS, rank=0)
    second = Reply(trouble="not sent")
    if first.ok:
        second = await client.post(target.url, "/v1/completions", body, TWICE_SECONDS, rank=0)
    after, _ = await client.metrics(target.url, GREETING_SECONDS)
    return Twice(where=target.name, prompt_tokens=tokens, first=first, second=second, before=before, after=after)


async def _answers(
    client: Client, settings: Settings, counted: Sequence[Target], through: Target, models: Mapping[Target, str]
) -> tuple[Told, ...]:
    """Every engine's replies to one question: alone, then several at once, half of them from the prefix cache where the stack has one."""
    ranks: list[int | None] = list(range(settings.serving.engine.data_parallel_size))
    engines = [(pod, rank) for pod in counted for rank in ranks] or [(through, None)]
    tokens, context = declared.prompt_to_hit(settings) or questions.PASSAGE_TOKENS, declared.context_tokens(settings)
    # One is of every engine's first request, so that prompts hit the prefix cache, the other of none.
    salts = secrets.token_hex(8), secrets.token_hex(8)

    async def told(target: Target, rank: int | None, moment: str, salt: str) -> Told:
        body = questions.needle(models[target], tokens, context, salt)
        reply = await client.post(target.url, "/v1/completions", body, ANSWER_SECONDS, rank=rank)
        return Told(where=target.name, name=moment if rank is None else f"rank {rank} {moment}", reply=reply)

    return (
        *await asyncio.gather(*(told(*engine, "alone", salts[0]) for engine in engines)),
        *await asyncio.gather(
            *(told(*engine, "under load", salts[number % 2]) for engine in engines for number in range(TOGETHER))
        ),
    )
