"""Where two values differ, in the words of who wrote them."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from fleet.preview.compare.structural_diff import Difference, differences, path_text, touches
from fleet.preview.record.values import UNKNOWN, Secret, Value, transform
from tests.support.rows import each_row


def told(old: Value, new: Value) -> list[tuple[str, str, Any, Any]]:
    return [(path_text(one.path), one.kind, one.before, one.after) for one in differences(old, new)]


def test_containers_go_by_name_and_ports_by_number_and_protocol() -> None:
    old = {"containers": [{"name": "a", "image": "x"}, {"name": "b", "ports": [{"containerPort": 80}]}]}
    new = {
        "containers": [
            {"name": "b", "ports": [{"containerPort": 81}, {"containerPort": 80, "protocol": "TCP"}]},
            {"name": "a", "image": "y"},
        ]
    }
    assert sorted(told(old, new)) == [
        ("containers[a].image", "changed", "x", "y"),
        ("containers[b].ports[80/TCP].protocol", "added", None, "TCP"),
        ("containers[b].ports[81/TCP]", "added", None, {"containerPort": 81}),
    ]


def test_mounts_go_by_path_and_tolerations_by_what_they_tolerate() -> None:
    old = {"volumeMounts": [{"mountPath": "/a", "name": "v"}], "tolerations": [{"key": "gpu", "effect": "NoSchedule"}]}
    new = {"volumeMounts": [{"mountPath": "/a", "name": "w"}], "tolerations": [{"key": "spot", "effect": "NoSchedule"}]}
    assert [path for path, *_ in told(old, new)] == [
        "tolerations[spot NoSchedule]",
        "tolerations[gpu NoSchedule]",
        "volumeMounts[/a].name",
    ]


def test_rules_go_by_the_name_of_the_recording_or_alert() -> None:
    old = {"rules": [{"record": "a", "expr": "1"}, {"alert": "b", "expr": "2"}, {"record": "c", "expr": "3"}]}
    new = {"rules": [{"alert": "b", "expr": "2"}, {"record": "c", "expr": "4"}]}
    assert told(old, new) == [
        ("rules[c].expr", "changed", "3", "4"),
        ("rules[a]", "removed", {"record": "a", "expr": "1"}, None),
    ]


def test_arguments_go_by_flag() -> None:
    old = {"args": ["/model", "--max-num-seqs=512", "--enable-prefix-caching", "--host", "::"]}
    new = {"args": ["/model", "--max-num-seqs=1024", "--host", "0.0.0.0"]}
    assert told(old, new) == [
        ("args[--max-num-seqs]", "changed", "--max-num-seqs=512", "--max-num-seqs=1024"),
        ("args[--host value]", "changed", "::", "0.0.0.0"),
        ("args[--enable-prefix-caching]", "removed", "--enable-prefix-caching", None),
    ]


def test_an_element_added_in_the_middle_is_one_difference() -> None:
    assert told({"zones": ["a", "c"]}, {"zones": ["a", "b", "c"]}) == [("zones[b]", "added", None, "b")]


def test_another_order_is_a_difference_of_the_list() -> None:
    assert told({"env": [{"name": "A"}, {"name": "B"}]}, {"env": [{"name": "B"}, {"name": "A"}]}) == [
        ("env", "changed", ["A", "B"], ["B", "A"])
    ]


def test_a_list_without_keys_of_its_own_goes_by_position() -> None:
    assert told({"rules": [{"x": 1}, {"x": 2}]}, {"rules": [{"x": 1}]}) == [("rules[1]", "removed", {"x": 2}, None)]


def test_unknown_against_known_may_change_and_unknown_against_unknown_does_not() -> None:
    assert told({"a": UNKNOWN, "b": UNKNOWN}, {"a": UNKNOWN, "b": "x"}) == [("b", "may change", UNKNOWN, "x")]


def test_secrets_are_compared_and_stay_secret() -> None:
    [one] = differences({"a": Secret("one")}, {"a": "two"})
    assert (one.kind, one.hidden, repr(one.before), repr(one.after)) == ("changed", True, "[secret]", "[secret]")
    assert told({"a": Secret("same")}, {"a": "same"}) == []
    [closed] = differences({"a": Secret(UNKNOWN)}, {"a": Secret("x")})
    assert closed.kind == "may change"


def test_keys_with_dots_are_quoted() -> None:
    assert told({"annotations": {"pulumi.com/x": "1"}}, {"annotations": {"pulumi.com/x": "2"}})[0][0] == (
        'annotations["pulumi.com/x"]'
    )


@each_row(
    ("pattern", "expected"),
    [
        ("spec", True),
        ("spec.template", True),
        ("spec.template.spec.containers[*].image", True),
        ("spec.template.spec.containers[1].image", True),
        ("spec.template.spec.containers[0].image", False),
        ("spec.template.spec.containers[*].env", False),
        ("spec.selector", False),
        ("*", True),
    ],
)
def test_a_pattern_covers_what_lies_below_it(pattern: str, expected: bool) -> None:
    old = {"spec": {"template": {"spec": {"containers": [{"name": "a"}, {"name": "b", "image": "x"}]}}}}
    new = {"spec": {"template": {"spec": {"containers": [{"name": "a"}, {"name": "b", "image": "y"}]}}}}
    [one] = differences(old, new)
    assert touches(one, pattern) is expected


def test_a_map_that_comes_whole_touches_what_is_in_it_alone() -> None:
    one = Difference(path=("spec",), kind="added", before=None, after={"selector": {"app": "x"}})
    assert touches(one, "spec.selector")
    assert touches(one, "spec.selector.app")
    assert not touches(one, "spec.replicas")


SCALARS = st.one_of(st.none(), st.booleans(), st.integers(-2, 2), st.sampled_from(["", "a", "--a=1", "name"]))
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.one_of(SCALARS, st.just(UNKNOWN), SCALARS.filter(lambda one: one is not None).map(Secret)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(st.sampled_from(["name", "id", "args", "env", "ports", "containerPort"]), inner, max_size=4),
    ),
    max_leaves=12,
)


def plain(value: Value) -> Value:
    """The value as the engine's diff takes it: no marks, nothing absent written out, true apart from 1."""
    if isinstance(value, Secret):
        return plain(value.value)
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items() if item is not None and plain(item) is not None}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return (type(value).__name__, value) if isinstance(value, bool) else value


@given(VALUES)
def test_a_value_never_differs_from_itself_or_from_a_copy(value: Value) -> None:
    assert told(value, value) == []
    assert told({"x": value}, {"x": transform(value, lambda leaf: leaf)}) == []


@given(VALUES, VALUES)
def test_there_is_a_difference_exactly_where_values_are_not_equal(old: Value, new: Value) -> None:
    assert bool(told({"x": old}, {"x": new})) == (plain({"x": old}) != plain({"x": new}))
