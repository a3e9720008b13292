"""Servers that answer as declared, and that do not: reachable, model, version, key, completion, reasoning."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from fleet.verify import checks_service
from fleet.verify.client import Client
from fleet.verify.facts import Chat, Facts, Reply, Server, Target
from fleet.verify.findings import Report
from fleet.verify.verification import Asking, verify
from settings.stack import Settings
from tests.fleet.verify.stacks import (
    KEY,
    Guarded,
    check_of,
    differing,
    good,
    in_state,
    look,
    name_of,
    node_of,
    said_in,
    served,
    settings_of,
    state_of,
    with_adapters,
)
from tests.support.rows import each_row
from tests.support.simulators.local_server import Answer, Request
from tests.support.simulators.local_server import served as served_by
from tests.support.simulators.model_server.in_thread import serving
from tests.support.simulators.model_server.node import Faults

if TYPE_CHECKING:
    from aiohttp import web


@each_row("stack", ["dev", "cud"])
def test_a_server_that_is_what_the_stack_declares_passes(stack: str) -> None:
    report = good(stack)
    assert report.outcome == "passed"
    asked = {"reachable", "model", "version", "completion", "reasoning", "configuration", "ranks", "speculation"}
    assert asked <= set(in_state(report, "passed"))


def test_what_needs_the_cluster_is_not_checked_through_the_endpoint_alone_and_says_so() -> None:
    for id_ in ("replicas", "flags", "capacity"):
        check = check_of(good("dev"), id_)
        assert state_of(check) == "unknown"
        assert "--outputs or --kubeconfig" in said_in(check)
    assert "gateway" not in {check[0].id for check in good("dev").checks}


def test_a_server_that_loads_is_not_ready_and_nothing_else_is_judged(dev: Settings) -> None:
    with served(node_of(dev), ready=False) as url:
        report = verify(dev, "vllm-fleet", Asking(endpoint=url))
    check = check_of(report, "reachable")
    assert state_of(check) == "error"
    assert differing(check)[0].found == "HTTP 503"
    assert {state_of(one) for one in report.checks if one[0].id != "reachable"} == {"unknown"}


DECLARED = {
    "dev": settings_of("dev"),
    "cud": settings_of("cud"),
    "code": settings_of("dev", profile="serve-code"),
    "no drafts": settings_of("dev", engine={"speculative": None}),
}
NO_HITS = {"cache": replace(node_of(DECLARED["code"]).cache, prefix_caching=False)}
HITS = "cached tokens of the second prompt: 1,568 or more, found 0 of 3,137"


@each_row(
    ("stack", "server", "id_", "differs"),
    [
        ("dev", {"model": "Qwen/other"}, "model", "models: Qwen/Qwen3.5-27B-FP8, found Qwen/other"),
        ("dev", {"max_model_len": 131_072}, "model", "max_model_len: 2560, found 131072"),
        ("cud", {"version": "0.18.1"}, "version", "found 0.18.1"),
        ("cud", {"faults": Faults(reasoning_unsplit=True)}, "reasoning", "found </think> in `content`"),
        # Without a parser the thought stays in the text; one that nobody declared is a difference.
        ("dev", {"faults": Faults(reasoning_unsplit=True), "reasons": True}, "reasoning", ""),
        ("dev", {"reasons": True}, "reasoning", "found text in `reasoning`"),
        ("dev", {"faults": Faults(cut_share=1.0)}, "completion", "chat: "),
        ("dev", {"faults": Faults(unavailable_share=1.0)}, "completion", "found HTTP 503: "),
        (
            "dev",
            {"faults": Faults(unavailable_share=0.25)},
            "ranks",
            "32 requests answered, found 24 answered; HTTP 503",
        ),
        ("dev", {"faults": Faults(drafts_rejected=True)}, "speculation", "found 0 % of"),
        ("dev", {"speculative_tokens": 0}, "speculation", "speculation: "),
        ("no drafts", {}, "speculation", ""),
        ("no drafts", {"speculative_tokens": 1}, "speculation", "speculation: none"),
        ("code", {"labels": {"mamba_cache_mode": "none"}}, "configuration", "mamba_cache_mode: align, found none"),
        ("code", {}, "prefix-caching", ""),
        ("code", {**NO_HITS, "version": "0.18.1"}, "prefix-caching", HITS),
        ("code", {**NO_HITS, "version": "0.33.0"}, "prefix-caching", HITS),
    ],
)
def test_what_a_server_does_otherwise_is_named(stack: str, server: dict[str, Any], id_: str, differs: str) -> None:
    check = check_of(look(DECLARED[stack], **server), id_)
    assert state_of(check) == ("error" if differs else "passed")
    said = [f"{name_of(one)}: {one.allowed}, found {one.found}" for one in differing(check)]
    assert len(said) == bool(differs)
    assert all(differs in one for one in said), said


def test_adapters_that_are_not_listed_are_named() -> None:
    listed = [{"id": name, "max_model_len": 2560} for name in ("Qwen/Qwen3.5-27B-FP8", "support", "sales")]
    for models, missing in ((listed, []), (listed[:2], ["sales"])):
        server = Server(
            name="endpoint", health=Reply(status=200), models=Reply(status=200, body={"object": "list", "data": models})
        )
        check = checks_service.model(Facts(endpoint="", door=server, pods=()), with_adapters())
        assert [one.allowed for one in differing(check)] == missing


# The key

WRONG_KEY = "HTTP 401: the key in VLLM_API_KEY was rejected"


@pytest.fixture
def guarded() -> Settings:
    return settings_of("cud", apiKeySecret="vllm-api-key")


def _with_key(settings: Settings, key: str) -> Report:
    with served(node_of(settings), guarded=True) as url:
        return verify(settings, "vllm-fleet", Asking(endpoint=url, api_key=key))


def test_the_right_key_opens_and_its_absence_is_refused(guarded: Settings) -> None:
    report = _with_key(guarded, KEY)
    assert state_of(check_of(report, "api-key")) == "passed"
    assert state_of(check_of(report, "ranks")) == "passed"
    assert report.outcome == "passed"


def test_a_wrong_key_is_told_and_never_shown(guarded: Settings) -> None:
    report = _with_key(guarded, "sk-wrong-and-secret")
    assert differing(check_of(report, "model"))[0].found == WRONG_KEY
    assert differing(check_of(report, "completion"))[0].found == "HTTP 401: Unauthorized"
    assert "sk-wrong-and-secret" not in repr(report)


@pytest.mark.parametrize(
    ("without_key", "state"),
    [
        (Reply(status=401), "passed"),
        (Reply(status=403), "passed"),
        (Reply(status=200), "error"),
        (Reply(trouble="no answer within 10 s"), "unknown"),
        (Reply(status=503), "unknown"),
    ],
)
def test_only_an_answer_shows_a_door_that_is_open(guarded: Settings, without_key: Reply, state: str) -> None:
    door = Server(name="endpoint", health=Reply(status=200), models_without_key=without_key)
    check = checks_service.api_key(Facts(endpoint="http://10.0.0.9", door=door), guarded)
    assert check is not None
    assert state_of(check) == state


def test_behind_a_gateway_that_routes_v1_alone_a_wrong_key_is_called_one() -> None:
    settings = settings_of("gateway", apiKeySecret="vllm-api-key", replicas=1)

    class OnlyV1(Guarded):
        def _routes(self) -> Sequence[web.RouteDef]:
            return [one for one in super()._routes() if one.path.startswith("/v1")]

    with serving(lambda: OnlyV1(node_of(settings))) as server:
        reports = [
            verify(settings, "vllm-fleet", Asking(endpoint=server.url, api_key=key))
            for key in (KEY, "sk-wrong-and-secret")
        ]
    right, wrong = reports
    assert right.outcome == "passed"
    assert state_of(check_of(wrong, "reachable")) == "passed"
    assert differing(check_of(wrong, "model"))[0].found == WRONG_KEY


def _asked(answer: Callable[[Request], Answer], key: str | None, ask: Callable[[Client, str], Awaitable[Any]]) -> Any:
    """What is asked of a server that answers everything so; `ask` is given the client and the server's URL."""

    async def asking(url: str) -> Any:
        async with Client(api_key=key) as client:
            return await ask(client, url)

    with served_by(answer) as port:
        return asyncio.run(asking(f"http://127.0.0.1:{port}"))


def test_the_key_goes_to_v1_and_nowhere_else() -> None:
    seen: dict[str, str | None] = {}

    def answer(request: Request) -> Answer:
        seen[request.path] = request.headers.get("Authorization")
        return Answer(302, b"", {"Location": "/elsewhere"}) if request.path == "/v1/models" else Answer(200, b"")

    async def ask(client: Client, url: str) -> None:
        for path in ("/health", "/metrics", "/version", "/v1/models"):
            await client.get(url, path, 5)

    _asked(answer, KEY, ask)
    assert seen == {"/health": None, "/metrics": None, "/version": None, "/v1/models": f"Bearer {KEY}"}


# What no server here says: answers made by hand


def _facts(**changes: Any) -> Facts:
    door = Server(name="endpoint", health=Reply(status=200))
    chat = Chat(through="endpoint", **{"content": "42", "tokens": 10, **changes})
    return Facts(endpoint="http://127.0.0.1:1", door=door, chat=chat)


def test_a_thought_that_takes_all_tokens_is_split_and_the_rest_is_said(cud: Settings) -> None:
    check = checks_service.reasoning(_facts(content="", reasoning="let me"), cud)
    assert state_of(check) == "passed"
    assert "no answer yet" in said_in(check)


def test_thinking_that_is_switched_off_shows_no_reasoning() -> None:
    off = settings_of("cud", engine={"thinking": False})
    assert state_of(checks_service.reasoning(_facts(), off)) == "passed"
    assert state_of(checks_service.reasoning(_facts(reasoning="let me"), off)) == "error"


def test_tls_where_there_is_none_is_told_in_words(dev: Settings) -> None:
    with served(node_of(dev)) as url:
        report = verify(dev, "vllm-fleet", Asking(endpoint=url.replace("http:", "https:")))
    assert differing(check_of(report, "reachable"))[0].found.startswith("Cannot connect to host ")


def test_a_key_is_not_sent_to_a_stack_that_declares_none(cud: Settings) -> None:
    report = _with_key(cud, KEY)
    assert differing(check_of(report, "model"))[0].found.startswith("HTTP 401: ")
    assert "VLLM_API_KEY" not in repr(report)


FIRST = 'data: {"choices":[{"index":0,"delta":{"content":"4"},"finish_reason":null}]}\n\n'


@pytest.mark.parametrize(
    ("rest", "found"),
    [
        ('data: {"choices":[{"index":0,"delta":{"content":"2"},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n', ""),
        ("data: [DONE]\n\n", "the stream ended without a finish reason"),
        ("", "the stream ended without a finish reason"),
        (
            'data: {"error":{"message":"EngineCore encountered an issue.","type":"InternalServerError","param":null,"code":500}}'
            "\n\ndata: [DONE]\n\n",
            "error in the stream: EngineCore encountered an issue.",
        ),
    ],
    ids=["sound", "no end", "closed", "an error as vLLM 0.18.1 streams it"],
)
def test_a_stream_that_ends_in_order_and_not_with_an_answer_is_told(rest: str, found: str, dev: Settings) -> None:
    def answer(_: Request) -> Answer:
        return Answer(200, (FIRST + rest).encode(), {"Content-Type": "text/event-stream"})

    async def ask(client: Client, url: str) -> Chat:
        return await client.chat(Target(name="endpoint", url=url), {}, 5)

    check = checks_service.completion(replace(_facts(), chat=_asked(answer, None, ask)), dev)
    assert [one.found for one in differing(check)] == ([found] if found else [])
