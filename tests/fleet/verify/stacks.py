"""The repository's own stacks, and servers that are what these declare."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from facts.finding import Finding
from fleet.clients.metrics_text import MetricsText
from fleet.clients.metrics_text import parse as metrics
from fleet.plan.from_settings import deployment_of
from fleet.plan.model.gpu_memory import budget
from fleet.report.as_text import print_text
from fleet.report.terminal import Paper
from fleet.verify import declared
from fleet.verify.facts import Facts, Reply, Twice
from fleet.verify.findings import Check, Report
from fleet.verify.report import outline
from fleet.verify.verification import Asking, verify
from settings.load import parse
from settings.stack import Settings
from settings.stack_file import read
from tests.support.simulators.model_server import routing
from tests.support.simulators.model_server.engine_server import EngineServer
from tests.support.simulators.model_server.in_thread import serving
from tests.support.simulators.model_server.node import Cache, Faults, Node, Pace

if TYPE_CHECKING:
    from aiohttp import web

ROOT = Path(__file__).parents[3]
KEY = "sk-of-the-tests"
ANSWERED = Reply(status=200)
DIGEST = "sha256:228113d30448941e7a845f57ef0b3d3ea74ffda81be72ded4f8d6dfab0124fe6"


def settings_of(stack: str, **server: Any) -> Settings:
    """A stack of the repository, with settings of its `server` section laid over it."""
    given = json.loads(read(ROOT, stack).config["vllm-fleet:server"])
    engine = {**given.get("engine", {}), **server.pop("engine", {})}
    return with_sections(stack, server={**given, **server, **({"engine": engine} if engine else {})})


def with_sections(stack: str, **sections: Any) -> Settings:
    """A stack of the repository with whole sections of others."""
    texts = {name: given if isinstance(given, str) else json.dumps(given) for name, given in sections.items()}
    return parse(stack, dict(read(ROOT, stack).config) | {f"vllm-fleet:{name}": text for name, text in texts.items()})


def with_adapters() -> Settings:
    """Stack dev with two adapters."""
    adapters = [
        {"name": name, "id": f"my-team/{name}-lora", "revision": "0" * 40, "rank": 16} for name in ("support", "sales")
    ]
    return with_sections("dev", model={"id": "Qwen/Qwen3.5-27B-FP8", "adapters": adapters})


def node_of(settings: Settings, *, labels: dict[str, str] | None = None, **changes: Any) -> Node:
    """A server that is what the stack declares, fast; `labels` are laid over those of its cache, `changes` over the rest."""
    engine = settings.serving.engine
    block = declared.block_tokens(settings)
    assert block is not None
    resolved = {key: value for key, value in declared.cache_labels(settings).items() if key.startswith("mamba")}
    node = Node(
        model=declared.model_name(settings),
        ranks=engine.data_parallel_size,
        max_model_len=declared.context_tokens(settings) or 2560,
        cache=Cache(
            blocks=budget(deployment_of(settings)).pool_blocks,
            block_tokens=block,
            dtype=engine.kv_cache_dtype or "auto",
            prefix_caching=bool(engine.enable_prefix_caching),
            memory_utilization=engine.gpu_memory_share,
            labels={**resolved, **(labels or {})},
        ),
        pace=Pace(fixed_s=0.001),
        speculative_tokens=engine.speculative_tokens,
        mean_answer_tokens=24,
        # Without a parser the thought stays in the text, which is how this server answers a chat that does not reason.
        reasons=engine.reasoning_parser is not None,
        version=declared.version(settings),
    )
    return replace(node, **changes)


class Guarded(EngineServer):
    """Asks for the key below /v1, as vLLM does."""

    key = KEY

    def _routes(self) -> Sequence[web.RouteDef]:
        from aiohttp import web

        def guarded(handler: Callable[[web.Request], Any]) -> Callable[[web.Request], Any]:
            async def ask(request: web.Request) -> web.StreamResponse:
                if request.path.startswith("/v1") and request.headers.get("Authorization") != f"Bearer {self.key}":
                    return web.json_response({"error": "Unauthorized"}, status=401)
                answer: web.StreamResponse = await handler(request)
                return answer

            return ask

        return [web.route(one.method, one.path, guarded(one.handler)) for one in super()._routes()]


@contextmanager
def served(node: Node, faults: Faults | None = None, *, guarded: bool = False, ready: bool = True) -> Iterator[str]:
    """URL of a running server."""
    kind = Guarded if guarded else EngineServer
    with pytest.MonkeyPatch.context() as patch:
        # A burst that a busy machine stretches beyond the router's 100 ms could find the first ranks free again, and miss the last.
        patch.setattr(routing, "REFRESH_SECONDS", 3_600.0)
        with serving(lambda: kind(node, faults=faults), ready=ready) as server:
            yield server.url


def look(
    settings: Settings, faults: Faults | None = None, *, labels: dict[str, str] | None = None, **changes: Any
) -> Report:
    """`fleet verify` of the endpoint alone, on a server that is what the stack declares but for what is given."""
    with served(node_of(settings, labels=labels, **changes), faults) as url:
        return verify(settings, "vllm-fleet", Asking(endpoint=url))


@cache
def good(stack: str) -> Report:
    """The report of a server that is what one of the repository's stacks declares."""
    return look(settings_of(stack))


def printed(report: Report) -> str:
    """The report as a terminal 100 columns wide shows it, with figures that every run measures anew made the same."""
    steady = {"speculation": lambda text: re.sub(r"\d+ % of [\d,]+ drafts", "90 % of 2,000 drafts", text)}
    checks = tuple(
        tuple(replace(one, found=steady.get(one.id, str)(one.found)) for one in check) for check in report.checks
    )
    page = io.StringIO()
    fixed = replace(report, endpoint=report.endpoint and "http://10.0.0.9:8000", seconds=4.0, checks=checks)
    print_text(Paper(stream=page, width=100, styled=False), outline(fixed))
    return re.sub(r"of [\d,]+(?=\s+drafts)", "of 2,000", page.getvalue())


def asked_twice(first: Reply = ANSWERED, second: Reply = ANSWERED, hits: Mapping[str, int] | None = None) -> Facts:
    """A long prompt sent twice, and by how much it raised each engine's counter of hits."""

    def counters(values: Mapping[str, int]) -> MetricsText:
        series = (f'vllm:prefix_cache_hits_total{{engine="{engine}"}} {value}' for engine, value in values.items())
        return metrics("\n".join(series))

    found = hits or {}
    before, after = counters(dict.fromkeys(found, 0)), counters(found)
    twice = Twice(where="pod-1", prompt_tokens=4_753, first=first, second=second, before=before, after=after)
    return Facts(endpoint="", door=None, twice=twice)


def check_of(report: Report, id_: str) -> Check:
    """One check of a report."""
    return next(check for check in report.checks if check[0].id == id_)


def state_of(check: Check | None) -> str:
    """Its verdict."""
    assert check is not None
    return check[0].severity


def said_in(check: Check | None) -> str:
    """What it found, or why it could not run."""
    assert check is not None
    return str(check[0].found)


def differing(check: Check | None) -> tuple[Finding, ...]:
    """What differs."""
    assert check is not None
    return tuple(one for one in check[1:] if one.severity == "error")


def in_state(report: Report, state: str) -> list[str]:
    """Ids of the checks with that verdict."""
    return [check[0].id for check in report.checks if check[0].severity == state]


def where_of(difference: Finding) -> str:
    """The pod, endpoint or object."""
    return difference.subject.partition(" · ")[0]


def name_of(difference: Finding) -> str:
    """What of it."""
    return difference.subject.partition(" · ")[2]
