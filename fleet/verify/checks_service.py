"""Checks of the API: reachability, model, version, API key, completion, reasoning."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

from facts.texts import plural
from fleet.verify import declared, questions
from fleet.verify.ask import listed_models
from fleet.verify.facts import NAME_UNKNOWN, NOT_HTTP, OUT_OF_TIME, TLS_FAILED, Chat, Facts, Reply, Server
from fleet.verify.findings import Check, difference, format_where, judged, not_checked

if TYPE_CHECKING:
    from facts.finding import Finding
    from settings.sections.server import Image
    from settings.stack import Settings

KEY_VARIABLE: Final = "VLLM_API_KEY"
"""Environment variable with the API key; the same that vLLM's server reads."""
_TEMPLATE_TOKENS: Final = 400
"""Maximum tokens that a chat template adds. Assumed; Qwen3.5's adds about twenty."""
_MARKS: Final = ("<think>", "</think>")
_NO_UPSTREAM: Final = "no healthy upstream"
"""Google's load balancer's text with 503 when no replica passes its health check."""
_ENGINE_DIED: Final = "vLLM returns 503 if an engine has died (see its log); a proxy does so if no replica is ready"
"""Source: vLLM 0.18.1, entrypoints/serve/instrumentator/health.py."""
_NO_REPLICA_BEHIND: Final = (
    "the load balancer has no healthy replica: none is ready, or its health check does not use /health, "
    "as without the pool's HealthCheckPolicy"
)
_NOBODY_LISTENS: Final = (
    "connection refused: check the URL or the port forward; a pod refuses connections until its engines have loaded"
)
"""Source: vLLM 0.18.1, entrypoints/openai/api_server.py: the port is bound first and listens once the engines are ready."""
_NAME_UNKNOWN: Final = "check the host in the URL: this machine cannot resolve it"
_WRONG_SCHEME: Final = "check whether the URL needs http or https, and whether this machine trusts the certificate"
_SILENT: Final = (
    "the server hangs, or a firewall drops the packets: check the URL from another machine, and the pod's log"
)
_ANOTHER_ANSWERS: Final = "the response is not from vLLM: check the URL"


def _everybody(facts: Facts) -> tuple[Server, ...]:
    return ((facts.door,) if facts.door is not None else ()) + facts.pods


def _answering(facts: Facts) -> tuple[Server, ...]:
    return tuple(server for server in _everybody(facts) if server.answers)


def nobody(facts: Facts) -> str:
    """Why no server could be queried; empty if one answered."""
    if _answering(facts):
        return ""
    asked = _everybody(facts)
    return "no server answers" if asked else facts.door_trouble or facts.cluster_trouble or "no server to query"


def reachable(facts: Facts) -> Check:
    """/health of everybody."""
    title = "Servers reachable"
    servers = _everybody(facts)
    differences = [
        difference(server.name, "/health", "HTTP 200", _format_health(server))
        for server in servers
        if not server.answers
    ]
    untold = [f"no tunnel to {name}: {why}" for name, why in sorted(facts.tunnel_troubles.items())]
    if not servers:
        return not_checked("reachable", title, "; ".join(untold) or nobody(facts))
    if untold and not differences:
        return not_checked(
            "reachable", title, f"{format_where(server.name for server in servers)} answered; {'; '.join(untold)}"
        )
    if differences and all(one.found == OUT_OF_TIME for one in differences):
        return not_checked("reachable", title, f"{OUT_OF_TIME} before a server was queried; raise --timeout")
    beside = (
        f"; the endpoint was not queried: {facts.door_trouble}" if facts.door is None and facts.door_trouble else ""
    )
    return judged(
        "reachable",
        title,
        differences,
        held=f"{format_where(server.name for server in servers)} answered /health{beside}",
        failed="; ".join(dict.fromkeys(_advice(server.health) for server in servers if not server.answers)),
    )


def _advice(health: Reply) -> str:
    """Advice for a response other than 200."""
    if health.status == 503:
        return _NO_REPLICA_BEHIND if _NO_UPSTREAM in str(health.body) else _ENGINE_DIED
    if health.status is not None or health.trouble == NOT_HTTP:
        return _ANOTHER_ANSWERS
    if health.trouble == OUT_OF_TIME:
        return "raise --timeout to query the remaining servers"
    if health.late:
        return _SILENT
    if health.trouble.startswith(TLS_FAILED):
        return _WRONG_SCHEME
    return _NAME_UNKNOWN if health.trouble == NAME_UNKNOWN else _NOBODY_LISTENS


def _format_health(server: Server) -> str:
    if server.health.status != 503:
        return server.health.summary
    # vLLM sends no body; a proxy in front of it does.
    said = _NO_UPSTREAM if _NO_UPSTREAM in str(server.health.body) else "not ready"
    return f"HTTP 503: {said}"


def model(facts: Facts, settings: Settings) -> Check:
    """The served model and its context, from /v1/models."""
    title = "Model and context"
    if why := nobody(facts):
        return not_checked("model", title, why)
    wanted, context = declared.model_name(settings), declared.context_tokens(settings)
    differences: list[Finding] = []
    for server in _answering(facts):
        if not server.models.ok:
            differences.append(difference(server.name, "/v1/models", "HTTP 200", _format_models(server, settings)))
            continue
        listed = {str(one.get("id")): one for one in listed_models(server)}
        if wanted not in listed:
            found = ", ".join(sorted(listed)) or "none"
            differences.append(difference(server.name, "model", wanted, found))
            continue
        if missing := [adapter.name for adapter in settings.serving.model.adapters if adapter.name not in listed]:
            differences.append(difference(server.name, "adapters", ", ".join(missing), ", ".join(sorted(listed))))
        told_context = listed[wanted].get("max_model_len")
        if context is not None and told_context != context:
            differences.append(difference(server.name, "max_model_len", str(context), str(told_context)))
    return judged("model", title, differences, held=f"{wanted}, {context or 'its own'} tokens of context")


def _format_models(server: Server, settings: Settings) -> str:
    if server.models.status in (401, 403):
        if settings.guards_v1_only:
            return f"HTTP {server.models.status}: the key in {KEY_VARIABLE} was rejected"
        return f"HTTP {server.models.status}: it requires a key, but the stack declares none"
    return server.models.summary


def version(facts: Facts, settings: Settings) -> Check:
    """The vLLM release, and the pods' image if visible."""
    title = "vLLM's version"
    tag, wanted = settings.serving.image.tag, declared.version(settings)
    differences: list[Finding] = []
    asked = 0
    for server in _answering(facts):
        body = server.version.body
        found = str(body.get("version", "")) if server.version.ok and isinstance(body, Mapping) else ""
        if not found:
            continue
        asked += 1
        if found.partition("+")[0] != wanted:
            differences.append(difference(server.name, "/version", wanted, found))
    image = settings.serving.image
    wanted_image = f"{image.tag}@{image.digest}" if image.digest else image.tag
    for pod in facts.cluster.pods if facts.cluster is not None else ():
        if not pod.going and pod.image and not _is_of(pod.image, image):
            found = pod.image.rpartition("/")[2]
            differences.append(difference(pod.name, "image", wanted_image, found))
    if not asked and not differences:
        return not_checked("version", title, nobody(facts) or "no server reported it at /version")
    return judged("version", title, differences, held=f"{wanted}, matches tag {tag}")


def _is_of(reference: str, image: Image) -> bool:
    """Whether a pod's image is the stack's, by its digest or, without one, by its tag."""
    if image.digest is not None:
        return reference.endswith(f"@{image.digest}")
    return reference.partition("@")[0].endswith(f"/{image.repository}:{image.tag}")


def api_key(facts: Facts, settings: Settings) -> Check | None:
    """Whether /v1 requires the key; empty if the stack declares none."""
    if not settings.guards_v1_only:
        return None
    title = "API key in force"
    if why := nobody(facts):
        return not_checked("api-key", title, why)
    asking = _answering(facts)
    if settings.server.shape is not None:
        # The pods' routers drop the key, so the routers in front of them check it.
        asking = tuple(one for one in asking if one is facts.door)
        if not asking:
            return not_checked(
                "api-key", title, "the pods check no key: see the refusals of the routers in front of them"
            )
    asked = {one.name: one.models_without_key for one in asking if one.models_without_key is not None}
    differences = [
        difference(name, "/v1/models without a key", "HTTP 401", reply.summary)
        for name, reply in asked.items()
        if reply.ok
    ]
    # Neither accepted nor rejected: a gateway's own response, or none.
    untold = [f"{name}: {reply.summary}" for name, reply in asked.items() if reply.status not in (200, 401, 403)]
    if untold and not differences:
        return not_checked(
            "api-key", title, f"a request without the key was neither accepted nor rejected ({', '.join(untold)})"
        )
    return judged(
        "api-key",
        title,
        differences,
        held="a request to /v1 without the key is rejected",
        failed="the server accepts requests without a key: its pods started without it",
    )


def completion(facts: Facts) -> Check:
    """One complete and one streamed answer: text present, token counts plausible."""
    title = "One completion"
    if not facts.chats:
        return not_checked("completion", title, nobody(facts) or "no completion was requested")
    spoke = any(chat.spoke for chat in facts.chats)
    if not spoke and all(chat.trouble == OUT_OF_TIME for chat in facts.chats):
        return not_checked("completion", title, f"{OUT_OF_TIME} before the answer's own timeout")
    # If the other answer has text, a late one means a loaded server.
    judgeable = [chat for chat in facts.chats if chat.spoke or not (spoke and chat.late)]
    differences = [oddity for chat in judgeable for oddity in _oddities(chat, facts.chat_through)]
    told_of = [_told_of(chat) for chat in facts.chats]
    return judged(
        "completion", title, differences, held=f"through {_via(facts)}: {'; '.join(told_of)}", failed="see below"
    )


def _via(facts: Facts) -> str:
    return "the endpoint" if facts.chat_through == "endpoint" else f"pod {facts.chat_through}"


def _kind(chat: Chat) -> str:
    return "stream" if chat.stream else "whole answer"


def _told_of(chat: Chat) -> str:
    if not chat.spoke and chat.late:
        return f"{_kind(chat)}: {chat.trouble}"
    tokens = chat.usage.get("completion_tokens") if chat.usage is not None else None
    size = plural(tokens, "token") if isinstance(tokens, int) else f"{len(chat.content + chat.reasoning)} characters"
    return f"{_kind(chat)} of {size}" + ("" if chat.finish else " so far")


def _oddities(chat: Chat, where: str) -> Iterator[Finding]:
    kind = _kind(chat)
    if not chat.spoke:
        why = chat.trouble or "an empty text"
        yield difference(where, kind, "some text", why)
        return
    # A stream that timed out may have sent text; an aborted one is an error.
    if chat.trouble and not chat.late:
        yield difference(where, kind, "an end", chat.trouble)
    if chat.usage is None:
        if chat.finish:
            yield difference(where, f"{kind}, usage", "counts of tokens", "none")
        return
    prompt, answer, total = (chat.usage.get(key) for key in ("prompt_tokens", "completion_tokens", "total_tokens"))
    if not (isinstance(prompt, int) and isinstance(answer, int) and isinstance(total, int)):
        yield difference(where, f"{kind}, usage", "three whole numbers", str(dict(chat.usage))[:80])
        return
    most = len(questions.QUESTION) + _TEMPLATE_TOKENS
    if not 1 <= prompt <= most:
        yield difference(where, f"{kind}, prompt_tokens", f"1 to {most}", str(prompt))
    if not 1 <= answer <= chat.asked_tokens:
        yield difference(where, f"{kind}, completion_tokens", f"1 to {chat.asked_tokens}", str(answer))
    # A chunk holds at least one token; the one that ends the reasoning may be split in two.
    if chat.stream and chat.chunks > answer + 1:
        yield difference(
            where,
            f"{kind}, completion_tokens",
            f"at least its {chat.chunks} chunks",
            str(answer),
        )
    if total != prompt + answer:
        yield difference(where, f"{kind}, total_tokens", str(prompt + answer), str(total))


def reasoning(facts: Facts, settings: Settings) -> Check:
    """Reasoning in its own field if a parser is declared, and not otherwise."""
    title = "Reasoning separated from the answer"
    parser = settings.serving.engine.reasoning_parser
    spoke = [chat for chat in facts.chats if chat.spoke]
    if not spoke:
        return not_checked("reasoning", title, nobody(facts) or "no completion came")
    where = facts.chat_through
    if parser is None:
        differences = [
            difference(
                where,
                _kind(chat),
                "no reasoningParser: all in `content`",
                "text in `reasoning`",
            )
            for chat in spoke
            if chat.reasoning
        ]
        marked = any(mark in chat.content for chat in spoke for mark in _MARKS)
        stays = "the reasoning stays in the text" + (", with its mark </think>" if marked else "")
        return judged("reasoning", title, differences, held=f"no reasoningParser declared: {stays}")
    differences = [one for chat in spoke for one in _unsplit(chat, where, thinks=_should_think(chat, settings))]
    reached = any(chat.content and chat.reasoning for chat in spoke)
    held = f"{parser}: `reasoning` and `content` are separate"
    if not reached:
        least = f"in {questions.STREAM_TOKENS} tokens or {max(chat.seconds for chat in spoke):.0f} s"
        held = f"{parser}: the reasoning is in `reasoning`; no answer yet {least}"
    return judged(
        "reasoning",
        title,
        differences,
        held=held,
        failed=f"--reasoning-parser={parser} is declared, but `content` contains the reasoning",
    )


def _should_think(chat: Chat, settings: Settings) -> bool:
    return settings.serving.engine.thinking is not False if chat.thinking is None else chat.thinking


def _unsplit(chat: Chat, where: str, *, thinks: bool) -> Iterator[Finding]:
    kind = _kind(chat)
    if mark := next((one for one in _MARKS if one in chat.content), None):
        yield difference(where, kind, "reasoning in `reasoning`", f"{mark} in `content`")
    elif thinks and not chat.reasoning:
        yield difference(where, kind, "the thought in `reasoning`", "nothing in `reasoning`")
    elif not thinks and chat.reasoning:
        yield difference(where, kind, "no reasoning: thinking is off", "text in `reasoning`")
