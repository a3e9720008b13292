"""The requests and the servers: prompts, lengths, balance over engines, other people's traffic."""

from __future__ import annotations

import re
from typing import Any

import pytest

from fleet.bench.certificate import certify
from fleet.bench.certificate.server_checks import engine_spread
from fleet.bench.folder import Asked, AskedWorkload, Kind
from fleet.bench.measurement import EngineResult, ErrorKind, Lengths, Measurement, Prompts, Run
from tests.fleet.bench.certificate.sound import (
    REQUESTS,
    check,
    every_run,
    failed,
    headline_blames,
    sound,
    unmeasured,
    with_engines,
    with_run,
    with_server,
)

RUN = sound().runs[1]
assert RUN.server is not None
SERVER = RUN.server


def _lengths(**changes: Any) -> Lengths:
    return RUN.lengths.model_copy(update=changes)


def _prompts(known: int, repeated: int) -> Measurement:
    return sound().model_copy(update={"prompts": Prompts(known=known, repeated=repeated)})


def _kind(kind: Kind, measurement: Measurement | None = None, ignore_eos: bool = True, **arguments: str) -> Measurement:
    made = measurement or sound()
    assert made.asked is not None
    workload = AskedWorkload(
        name=kind,
        kind=kind,
        arguments={name.replace("_", "-"): value for name, value in arguments.items()},
        ignore_eos=ignore_eos,
    )
    asked: Asked = made.asked.model_copy(update={"workload": workload})
    return made.model_copy(update={"asked": asked})


def _starving(number: int, engine: EngineResult) -> EngineResult:
    """The article's third phase: one engine choked with 801 queued, another idle."""
    if number == 0:
        return engine.model_copy(update={"waiting_mean": 801.0, "running_mean": 240.0})
    if number == 5:
        return engine.model_copy(update={"generation_tokens": 0.0, "running_mean": 0.0, "waiting_mean": 0.0})
    return engine


def _prompts_read(factor: float) -> Measurement:
    return with_engines(lambda _, one: one.model_copy(update={"prompt_tokens": one.prompt_tokens * factor}))


def test_other_peoples_prompts_are_seen_though_they_get_short_answers() -> None:
    found = check(_prompts_read(1.2), "foreign-traffic")
    assert (found.verdict, found.blames) == ("failed", "run")
    assert "2.00" in found.found
    assert failed(_prompts_read(1.2)) == ["foreign-traffic"]
    assert failed(_prompts_read(1.03)) == failed(_prompts_read(0.97)) == []


def test_prompts_that_the_servers_count_shorter_are_of_another_tokenizer() -> None:
    found = check(_prompts_read(0.85), "foreign-traffic")
    assert (found.verdict, found.blames) == ("failed", "data")
    assert "2.00" in found.found
    assert "tokenizer" in found.why


def test_engines_whose_counters_stood_still_in_the_window_were_not_read() -> None:
    """A collector that hung in the middle, and whose first and last reading fit."""
    still = with_engines(lambda _, one: one.model_copy(update={"prompt_tokens": 0.0, "generation_tokens": 0.0}))
    assert check(still, "foreign-traffic").blames == "data"


def test_an_engine_that_starves_while_another_chokes_is_named() -> None:
    found = check(with_engines(_starving), "engine-balance")
    assert (found.verdict, found.blames) == ("failed", "server")
    choked, _, starved = found.found.partition(" while ")
    assert "engine 0 of 10.8.0.7 had 801" in choked
    assert "engine 5 of 10.8.0.7 ran 0" in starved
    assert headline_blames(with_engines(_starving)) == "server"


def test_an_engine_that_was_not_read_to_the_end_is_not_called_starving() -> None:
    """Half of one server's readings are missing, and with them half of its tokens."""

    def half(number: int, engine: EngineResult) -> EngineResult:
        tokens = {"generation_tokens": engine.generation_tokens / 2, "prompt_tokens": engine.prompt_tokens / 2}
        return engine.model_copy(update=tokens) if number < 8 else engine

    engines = with_engines(half).runs[1].server
    assert engines is not None
    unread = with_server(engines=engines.engines, failed_scrapes=64, generation_tokens=SERVER.generation_tokens * 0.75)
    assert failed(unread) == ["scrapes", "engine-balance", "foreign-traffic"]
    assert headline_blames(unread) == "data"
    assert "(scrapes)" in certify(unread).reason
    # Readings that fail are few where one of many servers is lost, and the count of tokens tells.
    few = with_server(engines=engines.engines, generation_tokens=SERVER.generation_tokens * 0.95)
    assert headline_blames(few) == "data"
    assert "(foreign-traffic)" in certify(few).reason
    # A server that fails requests is at fault whether it was read or not.
    down = unread.runs[1].model_copy(
        update={"failed": 900, "errors": (ErrorKind(kind="http 503", count=900, example="x"),)}
    )
    crashed = unread.model_copy(update={"runs": (unread.runs[0], down, unread.runs[2])})
    assert headline_blames(crashed) == "server"
    assert "(failures)" in certify(crashed).reason


def test_a_queue_on_every_engine_is_a_full_fleet_not_a_starving_one() -> None:
    full = with_engines(lambda _, engine: engine.model_copy(update={"waiting_mean": 120.0}))
    assert failed(full) == []


def test_the_published_peaks_are_within_the_balance_and_a_fifth_is_not() -> None:
    def off(share: float) -> Measurement:
        return with_engines(
            lambda number, one: (
                one.model_copy(update={"generation_tokens": one.generation_tokens * (1 + share)})
                if number == 3
                else one
            )
        )

    assert failed(off(0.024)) == failed(off(-0.024)) == []
    assert failed(off(-0.25)) == failed(off(0.3)) == ["engine-balance"]


def test_chance_may_take_what_it_does_with_few_connections_but_not_everything() -> None:
    def spread(connections: int, requests_per_s: float) -> float:
        steady = RUN.steady
        assert steady is not None
        window = steady.model_copy(update={"seconds": 10.0, "requests_per_s": requests_per_s})
        return engine_spread(RUN.model_copy(update={"connections": connections, "steady": window}), SERVER)

    # Two servers with eight engines each: connections / 2, requests / 16.
    assert spread(4_000, 1_600.0) == pytest.approx(3 * (1 / 2_000 + 1 / 1_000) ** 0.5)
    assert spread(10**6, 10**6) == 0.1
    assert spread(2, 1.0) == 0.9


def test_requests_that_no_engine_has_stand_before_them() -> None:
    def holding(share: float) -> Measurement:
        return with_engines(
            lambda _, one: one.model_copy(update={"running_mean": share * one.running_mean, "waiting_mean": 0.0})
        )

    assert failed(holding(0.9)) == []
    walled = holding(195 / 1_600)
    assert failed(walled) == ["front-end"]
    assert headline_blames(walled) == "server"
    # A client that reads late holds them itself.
    late = every_run(
        walled,
        lambda run: run.model_copy(
            update={"clients": tuple(one.model_copy(update={"cpu_share_mean": 0.93}) for one in run.clients)}
        ),
    )
    assert check(late, "front-end").blames == "client"


def test_a_queue_on_one_engine_alone_is_no_full_fleet() -> None:
    alone = with_engines(lambda number, one: one.model_copy(update={"waiting_mean": 120.0 if number == 4 else 3.0}))
    found = check(alone, "engine-balance")
    assert found.verdict == "failed"
    choked, _, idle = found.found.partition(" while ")
    assert "engine 4 of 10.8.0.7 had 120" in choked
    assert "engine 0 of 10.8.0.7 had 3" in idle


def test_an_engine_without_work_was_not_measured() -> None:
    idle = with_engines(lambda number, one: one.model_copy(update={"generation_tokens": 0.0}) if number == 7 else one)
    assert re.search(r"engine 7 of 10\.8\.0\.7 .* 100\.0 % ", check(idle, "engine-balance").found)


def test_without_metrics_nothing_is_known_of_the_servers() -> None:
    blind = every_run(sound(), lambda run: run.model_copy(update={"server": None}))
    required = ["scrapes", "engine-balance", "front-end", "preemptions", "foreign-traffic", "cache-config"]
    assert unmeasured(blind) == ["prefix-hits", *required]
    assert "6 of 27 checks" in certify(blind).headline
    assert ", ".join(required) in certify(blind).reason


def test_prefix_hits_are_a_second_opinion_that_a_certificate_can_do_without() -> None:
    servers = [run.server.model_copy(update={"prefix_hit_share": None}) if run.server else None for run in sound().runs]
    runs = [run.model_copy(update={"server": server}) for run, server in zip(sound().runs, servers, strict=True)]
    uncounted = sound().model_copy(update={"runs": tuple(runs)})
    assert unmeasured(uncounted) == ["prefix-hits"]
    assert certify(uncounted).verdict == "certified"


def test_unknown_prompts_are_not_measured() -> None:
    assert unmeasured(_prompts(REQUESTS - 1, 0)) == ["prompts"]


def test_random_prompts_repeat_by_chance_and_may() -> None:
    assert failed(_prompts(REQUESTS, REQUESTS // 200)) == []
    assert "240 of 48,000" in check(_prompts(REQUESTS, 240), "prompts").found


def test_the_more_prompts_the_more_repeat_by_chance() -> None:
    # A sweep of 1.44 million: n^2 / 2 over 248,320 first tokens and 513 lengths are 8,139, though no two clients share a seed.
    assert failed(_prompts(1_440_000, 8_200)) == []
    # Two clients that do send 4,000 more.
    assert failed(_prompts(1_440_000, 8_139 + 4_000)) == ["prompts"]
    # Another model's vocabulary is not known, and may be small.
    asked = sound().asked
    assert asked is not None
    unknown = asked.model_copy(update={"shape": asked.shape.model_copy(update={"model": "meta/llama"})})
    assert failed(_prompts(1_440_000, 50_000)) == ["prompts"]
    assert failed(_prompts(1_440_000, 50_000).model_copy(update={"asked": unknown})) == []


def test_two_clients_of_one_seed_are_found_among_any_number() -> None:
    """288 clients' results of 500 prompts: one in 288 repeats, 0.35 % of all."""

    def few(run: Run) -> Run:
        clients = [client.model_copy(update={"completed": 500}) for client in run.clients]
        return run.model_copy(update={"clients": tuple(clients)})

    assert failed(every_run(_prompts(144_000, 82 + 500), few)) == ["prompts"]
    assert failed(every_run(_prompts(144_000, 82), few)) == []


def test_words_drawn_one_by_one_never_meet_by_chance() -> None:
    assert failed(_kind("shared-prefix", _prompts(1_440_000, 8_200))) == ["prompts"]


def test_conversations_may_repeat_and_end_early_and_random_prompts_may_not() -> None:
    repeated = _prompts(REQUESTS, 500)
    shorter = with_run(lengths=_lengths(output_shorter=900))
    assert failed(_kind("sharegpt", repeated)) == []
    assert failed(_kind("sharegpt", shorter, ignore_eos=False)) == []
    assert failed(_kind("sharegpt", with_run(lengths=_lengths(output_longer=1)), ignore_eos=False)) == ["lengths"]
    assert failed(_kind("shared-prefix", repeated)) == ["prompts"]


def test_a_shared_prefix_may_be_found_in_the_cache_up_to_its_share() -> None:
    # 512 of 768.2 tokens.
    assert failed(_kind("shared-prefix", with_server(prefix_hit_share=0.66), random_prefix_len="512")) == []
    assert failed(_kind("shared-prefix", with_server(prefix_hit_share=0.7), random_prefix_len="512")) == ["prefix-hits"]
    assert failed(_kind("shared-prefix", with_server(prefix_hit_share=0.9))) == []


def _of_a_file(kind: Kind, repeated: int, hits: float) -> Measurement:
    made = with_server(prefix_hit_share=hits)
    return _kind(kind, made.model_copy(update={"prompts": Prompts(known=REQUESTS, repeated=repeated)}))


def test_a_file_that_was_sent_again_and_read_from_the_cache_is_nobodys_traffic() -> None:
    found = check(_of_a_file("sharegpt", REQUESTS // 2, 0.3), "prefix-hits")
    assert (found.verdict, found.blames) == ("failed", "data")
    assert re.findall(r"[\d.]+ %", found.found) == ["30.0 %", "5.0 %", "50.0 %"]
    assert "benchmark.promptsPerClient" in found.why
    assert failed(_of_a_file("trace", REQUESTS * 9 // 10, 0.3)) == ["prefix-hits"]


def test_what_conversations_share_by_themselves_is_theirs() -> None:
    assert failed(_of_a_file("sharegpt", 0, 0.3)) == []
    assert failed(_of_a_file("sharegpt", REQUESTS // 2, 0.04)) == []  # sent again, and the cache had let them go
    assert failed(_of_a_file("trace", REQUESTS // 3, 0.6)) == []  # its users asked the same thing again


def test_what_the_warm_up_left_is_allowed_for() -> None:
    asked = sound().asked
    assert asked is not None
    few = asked.model_copy(update={"prompts_per_client": 50})
    hit = with_server(prefix_hit_share=0.025).model_copy(update={"asked": few})
    assert failed(hit) == []
