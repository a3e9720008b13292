from __future__ import annotations

import copy
import pickle

from fleet.preview.record.values import UNKNOWN, Secret, merge, paths_of_unknowns, reveal


def test_there_is_one_unknown() -> None:
    assert copy.deepcopy({"a": UNKNOWN})["a"] is UNKNOWN
    assert pickle.loads(pickle.dumps(UNKNOWN)) is UNKNOWN
    assert type(UNKNOWN)() is UNKNOWN
    assert repr(UNKNOWN) == "[unknown]"


def test_secrets_never_show_their_value() -> None:
    assert "hush" not in f"{Secret('hush')} {[Secret('hush')]!r}"


def test_secrets_are_equal_by_value_and_never_nested() -> None:
    assert Secret("a") == Secret("a") != Secret("b")
    assert Secret("a") != "a"
    assert Secret(Secret("a")).value == "a"
    assert len({Secret({"k": 1}), Secret({"k": 1})}) == 1


def test_reveal_opens_secrets_at_any_depth() -> None:
    assert reveal({"a": [Secret({"b": Secret("c")})], "d": UNKNOWN}) == {"a": [{"b": "c"}], "d": UNKNOWN}


def test_merge_goes_into_maps_and_replaces_the_rest() -> None:
    assert merge({"a": {"b": 1, "c": [1]}, "d": 1}, {"a": {"c": [2]}, "e": 3}) == {
        "a": {"b": 1, "c": [2]},
        "d": 1,
        "e": 3,
    }
    assert merge({"a": Secret({"b": 1})}, {"a": {"c": 2}}) == {"a": Secret({"b": 1, "c": 2})}


def test_paths_of_unknowns_lead_to_each_of_them() -> None:
    value = {"spec": {"ports": [{"port": 1}, {"port": UNKNOWN}]}, "token": Secret({"key": UNKNOWN}), "name": "x"}
    assert paths_of_unknowns(value) == ["spec.ports[1].port", "token.key"]
    assert paths_of_unknowns(UNKNOWN) == ["."]
