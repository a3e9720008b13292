"""Engines that are configured as declared, and that are not: labels, engines, KV tokens, ranks, drafts, prefixes."""

from __future__ import annotations

import pytest

from fleet.clients.metrics_text import parse
from fleet.verify import checks_engine, checks_traffic, declared, questions
from fleet.verify.facts import Facts, Reply, Server
from fleet.verify.verification import Asking, verify
from settings.stack import Settings
from tests.fleet.verify.stacks import (
    asked_twice,
    check_of,
    differing,
    in_state,
    look,
    name_of,
    node_of,
    said_in,
    settings_of,
    state_of,
    with_sections,
)
from tests.support.rows import each_row
from tests.support.simulators.model_server.engine_server import EngineServer
from tests.support.simulators.model_server.in_thread import serving
from tests.support.simulators.model_server.node import Faults


def _info(**labels: str) -> str:
    return "vllm:cache_config_info{" + ",".join(f'{key}="{value}"' for key, value in labels.items()) + "} 1\n"


def _facts(text: str) -> Facts:
    server = Server(name="pod-1", health=Reply(status=200), metrics=parse(text))
    return Facts(endpoint="", door=None, pods=(server,))


# The resolved configuration


@pytest.mark.parametrize(
    ("label", "found"),
    [
        ("block_size", "800"),
        ("enable_prefix_caching", "False"),
        ("mamba_ssm_cache_dtype", "float16"),
        ("prefix_caching_hash_algo", "xxhash"),
        ("num_gpu_blocks_override", "100"),
        ("kv_cache_memory_bytes", "1000000"),
    ],
)
def test_every_other_value_is_compared_too(dev: Settings, label: str, found: str) -> None:
    good = declared.cache_labels(dev)
    assert state_of(checks_engine.configuration(_facts(_info(engine="0", **good)), dev)) == "passed"
    check = checks_engine.configuration(_facts(_info(engine="0", **{**good, label: found})), dev)
    assert [(name_of(one), one.found) for one in differing(check)] == [(label, found)]


def test_one_engine_of_eight_that_differs_is_named(dev: Settings) -> None:
    good = dict(declared.cache_labels(dev))
    text = _info(engine="0", **good) + _info(engine="7", **{**good, "cache_dtype": "auto"})
    check = checks_engine.configuration(_facts(text), dev)
    assert differing(check)[0].found == "auto on engine 7"


def test_a_value_that_is_not_told_is_not_passed_in_silence(dev: Settings) -> None:
    good = dict(declared.cache_labels(dev))
    del good["cache_dtype"]
    check = checks_engine.configuration(_facts(_info(engine="0", **good)), dev)
    assert "not reported: cache_dtype" in said_in(check)
    assert state_of(checks_engine.configuration(_facts(_info(engine="0")), dev)) == "unknown"


def test_without_metrics_nothing_of_the_engines_is_checked_and_none_is_passed(dev: Settings) -> None:
    report = look(dev, Faults(metrics_missing=True))
    for id_ in ("configuration", "ranks", "speculation"):
        check = check_of(report, id_)
        assert state_of(check) == "unknown", check
        assert "/metrics" in said_in(check)


def test_engines_whose_metrics_are_switched_off_are_not_taken_for_idle_or_missing(dev: Settings) -> None:
    """What is left of /metrics with --disable-log-stats: the web server's own."""
    from aiohttp import web

    class Silent(EngineServer):
        async def _metrics(self, _: web.Request) -> web.Response:
            return web.Response(text='http_requests_total{handler="/v1/completions",status="2xx"} 7.0\n')

    with serving(lambda: Silent(node_of(dev))) as server:
        report = verify(dev, "vllm-fleet", Asking(endpoint=server.url))
    assert in_state(report, "error") == []
    for id_ in ("configuration", "ranks", "speculation"):
        assert state_of(check_of(report, id_)) == "unknown"
    assert "--disable-log-stats" in said_in(check_of(report, "configuration"))


def test_profiles_without_prefix_caching_expect_no_cache_mode() -> None:
    batch = declared.cache_labels(settings_of("dev", profile="serve-batch"))
    assert (batch["enable_prefix_caching"], batch["mamba_cache_mode"]) == ("False", "none")


# Ranks


def test_behind_a_service_of_several_replicas_no_counter_is_trusted() -> None:
    spot = settings_of("spot")
    door = Server(name="endpoint", health=Reply(status=200))
    check = checks_traffic.ranks(Facts(endpoint="http://10.0.0.9", door=door), spot)
    assert state_of(check) == "unknown"
    assert "/metrics" in said_in(check)


# Drafts


def test_two_draft_tokens_are_held_against_both_positions() -> None:
    two = settings_of("dev", engine={"speculative": {"method": "mtp", "numSpeculativeTokens": 2}})
    assert declared.acceptance(two) == pytest.approx((0.9 + 0.624) / 2)


# Prompts


def test_prompts_are_of_tokens_that_every_model_has_and_none_is_like_another() -> None:
    """Llama 2 has 32,000; vLLM answers HTTP 400 to a token beyond."""
    prompts = [questions.short("m", seed)["prompt"] for seed in range(20)]
    prompts.append(questions.long("m", 20, 4_753)["prompt"])
    assert [len(one) for one in prompts] == [64] * 20 + [4_753]
    assert 1_000 <= min(map(min, prompts)) <= max(map(max, prompts)) < 32_000
    assert len({tuple(one[:16]) for one in prompts}) == 21


# Prefixes


@pytest.mark.parametrize(("context", "prompt"), [(8_192, 1_025), (512, None)], ids=["room", "no room"])
def test_another_models_prompt_is_long_enough_for_the_largest_block(context: int, prompt: int | None) -> None:
    """DeepSeek's attention has blocks of 128 tokens on a B200, and the server tells 16."""
    engine = {"enablePrefixCaching": True, "mambaCacheMode": None, "maxModelLen": context, "speculative": None}
    model = {"id": "deepseek-ai/DeepSeek-V3.1", "revision": "0" * 40}
    server = {"profile": "record", "replicas": 1, "engine": engine}
    settings = with_sections("dev", model=model, server=server)
    assert declared.prompt_to_hit(settings) == prompt


def test_a_context_in_which_no_prompt_can_hit_is_not_checked(dev: Settings) -> None:
    check = checks_traffic.prefix_caching(Facts(endpoint="", door=None), dev)
    assert state_of(check) == "unknown"


def test_a_long_prompt_that_is_refused_is_a_failure(code: Settings) -> None:
    check = checks_traffic.prefix_caching(asked_twice(Reply(status=400), Reply()), code)
    assert (state_of(check), differing(check)[0].found) == ("error", "HTTP 400")


@each_row(
    ("hits", "state"),
    [
        ({"0": 0, "3": 0}, "error"),
        ({"0": 1_567, "3": 0}, "error"),
        ({"0": 3_168, "3": 0}, "passed"),
        # Of a front end that does not pin, or of other users: the cache works.
        ({"0": 0, "3": 4_752}, "passed"),
    ],
)
def test_hits_of_any_engine_show_a_cache_that_works(code: Settings, hits: dict[str, int], state: str) -> None:
    assert state_of(checks_traffic.prefix_caching(asked_twice(hits=hits), code)) == state
