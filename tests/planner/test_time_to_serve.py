from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner import ledger
from planner.time_to_serve import Start, time_to_serve

SPOT = Start(weights_gb=29, volume_gib=64, volume_mibps=4800, readers=12)


def test_a_restart_on_a_new_node_is_the_articles_quarter_of_an_hour() -> None:
    way = time_to_serve(replace(SPOT, platform_exists=True, weights_exist=True))
    assert [step.id for step in way.critical_path] == ["gpu-node", "image-pull", "weights-read", "engines"]
    # 5 to 6 minutes for the node and 10 more for loading and graphs; the image's pull is not in the article's count.
    assert 15 * 60 <= way.likely_seconds - 60 <= 17 * 60


def test_from_nothing_the_weights_are_written_before_a_gpu_is_asked_for() -> None:
    path = [step.id for step in time_to_serve(SPOT).critical_path]
    assert path.index("volume") < path.index("gpu-node")
    assert path[0] == "apis"
    assert path[-1] == "engines"


def test_each_step_begins_when_the_last_it_needs_has_ended() -> None:
    way = time_to_serve(replace(SPOT, gateway=True))
    ends = {step.id: step.ends_seconds for step in way.steps}
    for step in way.steps:
        assert step.begins_seconds == pytest.approx(max((ends[need] for need in step.needs), default=0.0))


def test_the_gateway_is_ready_long_before_the_servers() -> None:
    gateway = next(step for step in time_to_serve(replace(SPOT, gateway=True)).steps if step.id == "gateway")
    assert not gateway.critical


def test_a_volume_shared_by_twelve_readers_gives_each_a_twelfth() -> None:
    seconds = {
        readers: next(
            s for s in time_to_serve(replace(SPOT, readers=readers)).steps if s.id == "weights-read"
        ).likely_seconds
        for readers in (1, 12)
    }
    assert seconds[12] == pytest.approx(29e9 / 2**20 / 400)
    assert seconds[1] == pytest.approx(29e9 / 2**20 / 4000)  # a node's own ceiling, not the volume's 4,800


def test_levers_say_what_they_save_and_come_strongest_first() -> None:
    levers = time_to_serve(replace(SPOT, platform_exists=True, weights_exist=True)).levers
    assert [lever.id for lever in levers] == ["warm-caches", "spare-nodes", "faster-volume"]
    assert levers[1].saves_seconds == 390
    assert list(levers) == sorted(levers, key=lambda lever: -lever.saves_seconds)


def test_every_duration_says_who_measured_it_or_on_what_it_rests() -> None:
    for id_, step in ledger.section("durations", "steps").items():
        assert step.get("source") or step.get("assumed"), id_
        if "source" in step:
            assert ledger.source(step["source"]).title


@pytest.mark.parametrize("field", ["weights_gb", "volume_gib", "volume_mibps", "readers", "writer_mibps"])
def test_a_size_or_rate_of_zero_is_refused_by_name(field: str) -> None:
    with pytest.raises(ValueError, match=field):
        replace(SPOT, **{field: 0})


starts = st.builds(
    Start,
    weights_gb=st.floats(1, 1000),
    volume_gib=st.integers(4, 4096),
    volume_mibps=st.floats(400, 100_000),
    readers=st.integers(1, 1000),
    platform_exists=st.booleans(),
    weights_exist=st.booleans(),
    writer_mibps=st.floats(400, 4800),
    warm_caches=st.booleans(),
    spare_nodes=st.booleans(),
    gateway=st.booleans(),
)


@given(starts)
def test_low_likely_and_high_never_change_places(start: Start) -> None:
    way = time_to_serve(start)
    assert 0 < way.low_seconds <= way.likely_seconds <= way.high_seconds
    assert all(step.low_seconds <= step.likely_seconds <= step.high_seconds for step in way.steps)
    assert sum(step.likely_seconds for step in way.critical_path) == pytest.approx(way.likely_seconds)


@given(starts)
def test_more_readers_never_start_sooner_and_no_lever_makes_it_later(start: Start) -> None:
    assert (
        time_to_serve(replace(start, readers=start.readers + 1)).likely_seconds >= time_to_serve(start).likely_seconds
    )
    assert all(lever.saves_seconds > 0 for lever in time_to_serve(start).levers)
