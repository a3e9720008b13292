"""Sends all requests to a stack's servers: identity, one answer, a burst, one prompt twice. Evaluates nothing.

The load is small: two answers of a few hundred tokens, four requests of 64 tokens per engine,
one long prompt twice.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from fleet.clients.metrics_text import MetricsText
from fleet.verify import declared, questions
from fleet.verify.ask_answers import Engine, ask_answers, ask_tool
from fleet.verify.client import Client
from fleet.verify.cluster import READ_SECONDS
from fleet.verify.facts import OUT_OF_TIME, Burst, Chat, Reply, Routed, Server, Target, Told, Twice

if TYPE_CHECKING:
    from settings.stack import Settings

GREETING_SECONDS: Final = 10.0
"""For /health, /version, /v1/models, /metrics. Equal to the pods' /health probe timeout (workloads/server/pod.py)."""
BURST_SECONDS: Final = 12.0
TWICE_SECONDS: Final = 10.0
CHAT_SECONDS: Final = 20.0
"""Per phase; 52 s with the greeting. Only the long prompt is sent twice, and not again without an answer: one minute in all,
whatever the server does."""
SETTLE_SECONDS: Final = 1.5
"""Maximum lag of counters behind the answers. Assumed: engines report counts with every step."""
_SETTLE_POLL_SECONDS: Final = 0.25


LogReader = Callable[[tuple[str, ...]], Mapping[str, tuple[int, ...]]]
"""Reads the tokens of the engines' caches from the pods' logs, by pod name."""


_FINISHED: Final = "vllm:request_success_total"
"""Finished requests, by engine and reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What came back."""

    door: Server | None
    pods: tuple[Server, ...]
    chats: tuple[Chat, ...]
    chat_through: str
    twice: Twice | None
    twice_trouble: str
    told: tuple[Told, ...] = ()
    tool: Reply | None = None
    routed: Routed | None = None


async def ask(
    settings: Settings,
    *,
    door: Target | None,
    pods: tuple[Target, ...],
    router: Target | None = None,
    one_server: bool,
    api_key: str | None,
    until: float,
    answers: bool = False,
    log_of: LogReader | None = None,
) -> Asked:
    """Query all servers, until `until` (time.monotonic()) at the latest.

    `one_server`: all requests to the endpoint reach the same server. `answers`: also ask the
    standing question of --answers. `log_of` reads cache sizes from pods' logs; it is
    called only for pods whose metrics do not have them.
    """
    async with Client(api_key=api_key, until=until) as client:
        everybody = ([door] if door else []) + list(pods)
        greeted = dict(
            zip(everybody, await asyncio.gather(*(_greet(client, settings, one) for one in everybody)), strict=True)
        )
        # In parallel with the rest: kubectl has its own timeout and must not start when the time is nearly up.
        reading = asyncio.create_task(_logs(client, pods, greeted, log_of))
        # The pods if any; else the endpoint, if it is a single server.
        alone = [door] if door is not None and not pods and one_server else []
        counted = [pod for pod in (*pods, *alone) if greeted[pod].answers]
        bursts = await asyncio.gather(*(_burst(client, settings, one, greeted[one]) for one in counted))
        for one, burst in zip(counted, bursts, strict=True):
            greeted[one] = replace(greeted[one], burst=burst)
        routed = None if router is None else await _routed(client, settings, router, counted, greeted)
        twice, twice_trouble = await _twice(client, settings, counted, greeted)
        told: tuple[Told, ...] = ()
        through = next((one for one in everybody if greeted[one].answers), None)
        if answers and through is not None:
            ranks: list[int | None] = list(range(settings.serving.engine.data_parallel_size))
            engines: list[Engine] = [(pod, rank) for pod in counted for rank in ranks] or [(through, None)]
            models = {target: _model(settings, greeted[target]) for target, _ in engines}
            told = await ask_answers(client, settings, engines, models)
        # Last: a stream that times out is left half read, and kubectl closes the whole tunnel of an aborted connection.
        # Source: client-go, tools/portforward, handleConnection.
        chats: tuple[Chat, ...] = ()
        tool: Reply | None = None
        if through is not None:
            if answers:
                tool = await ask_tool(client, settings, through, _model(settings, greeted[through]))
            chats = await _chats(client, settings, through, greeted[through])
        logged = await reading
        for pod in pods:
            greeted[pod] = replace(greeted[pod], logged_kv_tokens=logged.get(pod.name, ()))
    return Asked(
        door=greeted[door] if door else None,
        pods=tuple(greeted[pod] for pod in pods),
        chats=chats,
        chat_through=through.name if through is not None else "",
        twice=twice,
        twice_trouble=twice_trouble,
        told=told,
        tool=tool,
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


def listed_models(server: Server) -> tuple[Mapping[str, Any], ...]:
    """The models of /v1/models."""
    body = server.models.body
    listed = body.get("data") if isinstance(body, Mapping) else None
    return tuple(one for one in listed if isinstance(one, Mapping)) if isinstance(listed, list) else ()


def _model(settings: Settings, server: Server) -> str:
    """The declared model, or the only other one, so that the remaining checks can run."""
    wanted = declared.model_name(settings)
    listed = [str(model.get("id")) for model in listed_models(server)]
    return wanted if wanted in listed or not listed else listed[0]


async def _chats(client: Client, settings: Settings, target: Target, server: Server) -> tuple[Chat, ...]:
    """One complete answer with defaults, and one stream with thinking on if a parser can show it."""
    model = _model(settings, server)
    told = True if settings.serving.engine.reasoning_parser is not None else None
    whole = questions.chat(model, stream=False, thinking=None)
    stream = questions.chat(model, stream=True, thinking=told)
    return tuple(
        await asyncio.gather(
            client.chat(target.url, whole, CHAT_SECONDS, thinking=None),
            client.chat_stream(target.url, stream, CHAT_SECONDS, thinking=told),
        )
    )


async def _burst(client: Client, settings: Settings, target: Target, server: Server) -> Burst:
    model = _model(settings, server)
    ranks = settings.serving.engine.data_parallel_size
    asked = ranks * questions.REQUESTS_PER_RANK
    began = time.monotonic()
    until = min(BURST_SECONDS, client.seconds_left)
    before, _ = await client.metrics(target.url, until)
    seed = secrets.randbits(32)
    replies = await asyncio.gather(
        *(
            client.post(target.url, "/v1/completions", questions.short(model, seed + number), until)
            for number in range(asked)
        )
    )
    seconds = time.monotonic() - began
    answered = sum(reply.ok for reply in replies)
    after = await _settled(client, target, before, ranks if answered else 0)
    troubles = Counter(reply.summary for reply in replies if not reply.ok)
    return Burst(
        asked=asked,
        answered=answered,
        troubles=tuple(words for words, _ in troubles.most_common(3)),
        seconds=seconds,
        before=before,
        after=after,
        late=sum(reply.late for reply in replies),
        cut_short=any(reply.trouble == OUT_OF_TIME for reply in replies),
    )


async def _routed(
    client: Client, settings: Settings, router: Target, pods: list[Target], greeted: Mapping[Target, Server]
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

    model = _model(settings, greeted[pods[0]]) if pods else declared.model_name(settings)
    before, seed = await finished(), secrets.randbits(32)
    until = min(BURST_SECONDS, client.seconds_left)
    replies = await asyncio.gather(
        *(
            client.post(router.url, "/v1/completions", questions.short(model, seed + number), until)
            for number in range(max(1, len(pods)) * (1 if ranks is None else len(ranks)) * questions.REQUESTS_PER_RANK)
        )
    )
    ended = await finished()
    unknown = questions.short("no-such-model", seed)
    refused = {"another model": await client.post(router.url, "/v1/completions", unknown, GREETING_SECONDS)}
    if settings.guards_v1_only:
        refused["no key"] = await client.get(router.url, "/v1/models", GREETING_SECONDS, with_key=False)
        refused["a path outside /v1"] = await client.get(router.url, "/metrics", GREETING_SECONDS)
    counts = {
        name: None if then is None or (now := ended.get(name)) is None else round(now - then)
        for name, then in before.items()
    }
    troubles = Counter(reply.summary for reply in replies if not reply.ok)
    return Routed(
        router=router.name,
        asked=len(replies),
        answered=sum(reply.ok for reply in replies),
        troubles=tuple(words for words, _ in troubles.most_common(3)),
        shares=counts,
        refused=refused,
    )


async def _settled(client: Client, target: Target, before: MetricsText | None, ranks: int) -> MetricsText | None:
    """A scrape after every rank has made progress, or the last one before the timeout."""
    end = time.monotonic() + min(SETTLE_SECONDS, client.seconds_left)
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


async def _twice(
    client: Client, settings: Settings, counted: list[Target], greeted: Mapping[Target, Server]
) -> tuple[Twice | None, str]:
    tokens = declared.prompt_to_hit(settings)
    if not settings.serving.caches_prefixes or tokens is None:
        return None, ""
    if not counted:
        return None, "no single server's counters are available"
    target = counted[0]
    body = questions.long(_model(settings, greeted[target]), secrets.randbits(32), tokens)
    before, trouble = await client.metrics(target.url, TWICE_SECONDS)
    # Pinned to one engine: each has its own cache.
    first = await client.post(target.url, "/v1/completions", body, TWICE_SECONDS, rank=0)
    second = Reply(trouble="not sent")
    if first.ok:
        second = await client.post(target.url, "/v1/completions", body, TWICE_SECONDS, rank=0)
    after, _ = await client.metrics(target.url, TWICE_SECONDS)
    found = Twice(where=target.name, prompt_tokens=tokens, first=first, second=second, before=before, after=after)
    return found, trouble


async def _logs(
    client: Client, pods: tuple[Target, ...], greeted: Mapping[Target, Server], log_of: LogReader | None
) -> Mapping[str, tuple[int, ...]]:
    silent = tuple(pod.name for pod in pods if greeted[pod].answers and not _tells_blocks(greeted[pod].metrics))
    if log_of is None or not silent or client.seconds_left < READ_SECONDS:
        return {}
    return await asyncio.to_thread(log_of, silent)


def _tells_blocks(metrics: MetricsText | None) -> bool:
    infos = metrics.of("vllm:cache_config_info") if metrics is not None else ()
    return any(info.labels.get("num_gpu_blocks", "").isdecimal() for info in infos)
