from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from facts import ledger
from facts.disks import MIN_THROUGHPUT_MIBPS
from facts.time_to_serve import (
    Start,
    Step,
    download_mb_per_s,
    image_seconds,
    step_seconds,
    time_to_serve,
    weights_read_seconds,
)

SPOT = Start(weights_gb=29, volume_gib=64, volume_mibps=4800, readers=12)


@pytest.mark.parametrize("warm", [False, True])
def test_one_engine_starts_as_on_an_h200_and_other_machines_say_that_it_is_assumed(warm: bool) -> None:
    start = replace(SPOT, platform_exists=True, weights_exist=True, warm_caches=warm)
    name = "engines-warm" if warm else "engines"

    def step(**changes: Any) -> Step:
        return next(one for one in time_to_serve(replace(start, **changes)).steps if one.id == name)

    alone, elsewhere = step(gpus=1, articles_machine=False), step(articles_machine=False)
    assert alone.likely_seconds == (82 if warm else 229)
    assert alone.source.startswith("gpu-")
    assert (elsewhere.likely_seconds, elsewhere.source) == (step().likely_seconds, "")
    assert elsewhere.note
    assert elsewhere.title != step().title


def test_a_restart_on_a_new_node_is_the_articles_quarter_of_an_hour() -> None:
    way = time_to_serve(replace(SPOT, platform_exists=True, weights_exist=True))
    assert [step.id for step in way.steps] == ["gpu-node", "image-pull", "weights-read", "engines"]
    # 5 to 6 minutes for the node and 10 more for loading and graphs; the image's pull is not in the article's count.
    assert 15 * 60 <= way.likely_seconds - 90 <= 17 * 60


def test_flex_start_adds_its_wait_to_the_longest_start_alone() -> None:
    plain, flex = (time_to_serve(replace(SPOT, flex_start=flex)) for flex in (False, True))
    added = [step for step in flex.steps if step not in plain.steps]
    assert [(step.id, step.low_seconds, step.likely_seconds, step.high_seconds) for step in added] == [
        ("flex-start", 0, 0, 900)
    ]
    assert flex.high_seconds == plain.high_seconds + 900


def test_from_nothing_the_weights_are_written_before_a_gpu_is_asked_for() -> None:
    path = [step.id for step in time_to_serve(SPOT).steps]
    assert path.index("volume") < path.index("gpu-node")
    assert path[0] == "apis"
    assert path[-1] == "engines"


def test_from_the_hub_the_server_downloads_and_nothing_is_written_before() -> None:
    way = time_to_serve(replace(SPOT, weights_from_hub=True))
    assert {step.id for step in way.steps}.isdisjoint({"writer-node", "download", "image", "volume"})
    (read,) = (step for step in way.steps if step.id == "weights-read")
    assert (read.low_seconds, read.likely_seconds) == (29_000 / 300, 29_000 / 100)


def test_the_gateway_is_ready_long_before_the_servers() -> None:
    way = time_to_serve(replace(SPOT, platform_exists=True, weights_exist=True, warm_caches=True))
    assert step_seconds("gateway", "low") < way.low_seconds
    assert step_seconds("gateway") < way.likely_seconds
    assert step_seconds("gateway", "high") < way.high_seconds


def test_a_volume_shared_by_twelve_readers_gives_each_a_twelfth() -> None:
    seconds = {
        readers: next(
            s for s in time_to_serve(replace(SPOT, readers=readers)).steps if s.id == "weights-read"
        ).likely_seconds
        for readers in (1, 12)
    }
    assert seconds[12] == pytest.approx(29e9 / 2**20 / 400)
    assert seconds[1] == pytest.approx(29e9 / 2**20 / 4000)  # a node's own ceiling, not the volume's 4,800


def test_an_image_grows_with_its_disk_and_takes_a_minute_at_least() -> None:
    assert image_seconds(4) == 60
    assert image_seconds(100e9 / 2**30) == pytest.approx(180)


def test_every_volume_takes_a_download_as_fast_as_it_comes() -> None:
    assert download_mb_per_s("low") * 1e6 < MIN_THROUGHPUT_MIBPS * 2**20


@given(st.floats(1, 1000), st.floats(400, 100_000), st.integers(1, 1000))
def test_readers_share_a_volume_and_none_is_faster_than_its_own_ceiling(
    size_gb: float, mibps: float, readers: int
) -> None:
    seconds = weights_read_seconds(size_gb=size_gb, throughput_mibps=mibps, readers=readers)
    assert seconds >= size_gb * 1e9 / 2**20 / 4000 * (1 - 1e-9)
    assert seconds <= weights_read_seconds(size_gb=size_gb, throughput_mibps=mibps, readers=readers + 1)


def test_every_duration_says_who_measured_it_or_on_what_it_rests() -> None:
    for id_, step in ledger.section("durations", "steps").items():
        assert step.get("source") or step.get("assumed"), id_
        if "source" in step:
            assert ledger.source(step["source"]).title


@pytest.mark.parametrize("field", ["weights_gb", "volume_gib", "volume_mibps", "readers"])
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
    warm_caches=st.booleans(),
    flex_start=st.booleans(),
)


@given(starts)
def test_low_likely_and_high_never_change_places(start: Start) -> None:
    way = time_to_serve(start)
    assert 0 < way.low_seconds <= way.likely_seconds <= way.high_seconds
    assert all(step.low_seconds <= step.likely_seconds <= step.high_seconds for step in way.steps)


@given(starts)
def test_more_readers_never_start_sooner(start: Start) -> None:
    assert (
        time_to_serve(replace(start, readers=start.readers + 1)).likely_seconds >= time_to_serve(start).likely_seconds
    )
