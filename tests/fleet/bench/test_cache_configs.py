"""Caches are the same when all labels are, and nearly as many blocks."""

from __future__ import annotations

import pytest

from fleet.bench.cache_configs import differ

CONFIG = {"block_size": "528", "cache_dtype": "fp8_e4m3", "num_gpu_blocks": "2211"}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, False),
        ({"num_gpu_blocks": "2209"}, False),
        ({"num_gpu_blocks": "2150"}, True),
        ({"num_gpu_blocks": "None"}, True),
        ({"cache_dtype": "auto"}, True),
        ({"sliding_window": "1"}, True),
    ],
)
def test_a_few_blocks_are_no_other_cache(changes: dict[str, str], expected: bool) -> None:
    assert differ([CONFIG, {**CONFIG, **changes}]) is expected


def test_one_server_or_none_is_like_itself() -> None:
    assert not differ([])
    assert not differ([CONFIG])
    assert not differ([{}, {}])
    assert differ([CONFIG, {}])
