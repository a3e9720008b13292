"""Checks of the API: reachability, model, version, API key, completion, reasoning."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

from fleet.verify import declared
from fleet.verify.facts import Facts, Server, a_server
from fleet.verify.findings import Part, Seen, Unseen, check, difference, format_where

if TYPE_CHECKING:
    from settings.sections.server import Image
    from settings.stack import Settings

KEY_VARIABLE: Final = "VLLM_API_KEY"
"""Environment variable with the API key; the same that vLLM's server reads."""
_MARKS: Final = ("<think>", "</think>")


def _anybody(facts: Facts) -> str:
    untold = "; ".join(f"no tunnel to {name}: {why}" for name, why in sorted(facts.tunnel_troubles.items()))
    return "" if facts.everybody else untold or a_server(facts)


@check(
    "reachable",
    "Servers reachable",
    "vLLM refuses connections until its engines have loaded, and answers 503 when one has died: read the pod's log. A load balancer "
    "answers 503 if no replica passes /health; another answer is not vLLM's: check the URL",
    needs=_anybody,
)
def reachable(facts: Facts, settings: Settings) -> Iterator[Part]:
    """/health of everybody. Source of the cure: vLLM 0.18.1, entrypoints/serve/instrumentator/health.py, openai/api_server.py."""
    del settings
    for server in facts.everybody:
        if not server.answers:
            yield difference(server.name, "/health", "HTTP 200", server.health.refusal)
    for name, why in sorted(facts.tunnel_troubles.items()):
        yield Unseen(f"no tunnel to {name}: {why}")
    yield Seen(f"{format_where(server.name for server in facts.everybody)} answered /health")
    if facts.door is None and facts.door_trouble:
        yield Seen(f"the endpoint was not queried: {facts.door_trouble}")


@check(
    "model",
    "Model and context",
    "clients ask for another model, or send longer prompts, than these servers take: compare `flags`",
    needs=a_server,
)
def model(facts: Facts, settings: Settings) -> Iterator[Part]:
    """The served model, its adapters and its context, from /v1/models."""
    wanted, context = declared.model_name(settings), declared.context_tokens(settings)
    for server in facts.answering:
        if not server.models.ok:
            yield difference(server.name, "/v1/models", "HTTP 200", _format_models(server, settings))
            continue
        names = [wanted, *(adapter.name for adapter in settings.serving.model.adapters)]
        if missing := [name for name in names if name not in server.listed]:
            found = ", ".join(sorted(server.listed)) or "none"
            yield difference(server.name, "models", ", ".join(missing), found)
        told = server.listed.get(wanted, {}).get("max_model_len", context)
        if context is not None and told != context:
            yield difference(server.name, "max_model_len", str(context), str(told))
    yield Seen(f"{wanted}, {context or 'its own'} tokens of context")


def _format_models(server: Server, settings: Settings) -> str:
    if server.models.status not in (401, 403):
        return server.models.summary
    key = f"the key in {KEY_VARIABLE} was rejected" if settings.guards_v1_only else "the stack declares no key"
    return f"{server.models.summary}: {key}"


@check(
    "version",
    "vLLM's version",
    "the pods run another image: `pulumi up` was not run or did not finish",
    needs=lambda _: "",
)
def version(facts: Facts, settings: Settings) -> Iterator[Part]:
    """The vLLM release, and the pods' image if visible."""
    wanted, image = declared.version(settings), settings.serving.image
    told = [
        (server.name, str(server.version.body.get("version", "")))
        for server in facts.answering
        if server.version.ok and isinstance(server.version.body, Mapping)
    ]
    for name, found in told:
        if found.partition("+")[0] != wanted:
            yield difference(name, "/version", wanted, found)
    wanted_image = f"{image.tag}@{image.digest}" if image.digest else image.tag
    for pod in facts.cluster.pods if facts.cluster is not None else ():
        if not pod.going and pod.image and not _is_of(pod.image, image):
            yield difference(pod.name, "image", wanted_image, pod.image.rpartition("/")[2])
    if not told:
        yield Unseen(a_server(facts) or "no server reported it at /version")
    yield Seen(f"{wanted}, matches tag {image.tag}")


def _is_of(reference: str, image: Image) -> bool:
    """Whether a pod's image is the stack's, by its digest or, without one, by its tag."""
    if image.digest is not None:
        return reference.endswith(f"@{image.digest}")
    return reference.partition("@")[0].endswith(f"/{image.repository}:{image.tag}")


@check(
    "api-key",
    "API key in force",
    "a server answers requests without a key: its pods started without it",
    needs=a_server,
    applies=lambda settings: settings.guards_v1_only,
)
def api_key(facts: Facts, settings: Settings) -> Iterator[Part]:
    """Whether /v1 requires the key."""
    # With prefill apart the pods' routers drop the key, so that the routers in front of them check it.
    asked = facts.answering if settings.server.shape is None else tuple(filter(None, (facts.door,)))
    if not asked:
        yield Unseen("the pods check no key: see the refusals of the routers in front of them")
    for server in asked:
        reply = server.models_without_key
        if reply is not None and reply.ok:
            yield difference(server.name, "/v1/models without a key", "HTTP 401", reply.summary)
        elif reply is not None and reply.status not in (401, 403):
            yield Unseen(f"{server.name} neither accepted nor rejected a request without the key: {reply.summary}")
    yield Seen("a request to /v1 without the key is rejected")


@check(
    "completion",
    "One completion",
    "the API is up, and an answer is refused, cut or empty: read the log of the pod that was asked",
    needs=a_server,
)
def completion(facts: Facts, settings: Settings) -> Iterator[Part]:
    """One streamed answer has text and an end, or at least a beginning on a busy server."""
    del settings
    if (chat := facts.chat) is None:
        yield Unseen("no completion was requested")
        return
    if not chat.spoke or (chat.trouble and not chat.is_late):
        yield difference(chat.through, "chat", "an answer", chat.trouble or "an empty text")
    size = "no end yet" if chat.tokens is None else f"{chat.tokens} tokens"
    yield Seen(f"through {chat.through}: {size}")


@check(
    "reasoning",
    "Reasoning separated from the answer",
    "clients see thoughts as answers, or answers as thoughts: compare reasoningParser and thinking with the model's chat template",
    needs=a_server,
)
def reasoning(facts: Facts, settings: Settings) -> Iterator[Part]:
    """Reasoning in its own field if a parser is declared, and not otherwise."""
    parser = settings.serving.engine.reasoning_parser
    if (chat := facts.chat) is None or not chat.spoke:
        yield Unseen("no completion came")
        return
    mark = next((one for one in _MARKS if one in chat.content), None)
    if parser is None:
        if chat.reasoning:
            yield difference(chat.through, "chat", "no reasoningParser: all in `content`", "text in `reasoning`")
        yield Seen("no reasoningParser declared: the reasoning stays in the text")
        return
    if mark:
        yield difference(chat.through, "chat", "reasoning in `reasoning`", f"{mark} in `content`")
    elif settings.serving.engine.thinking is False and chat.reasoning:
        yield difference(chat.through, "chat", "no reasoning: thinking is off", "text in `reasoning`")
    elif settings.serving.engine.thinking is not False and not chat.reasoning:
        yield difference(chat.through, "chat", "the thought in `reasoning`", "nothing in `reasoning`")
    yield Seen(f"{parser}: `reasoning` and `content` are separate" + ("" if chat.content else "; no answer yet"))
