from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import ModuleType
from typing import Any

import pytest

import rule
import rules
from facts.finding import Finding
from rule import Resource, ResourceRule, Setting, Settings, all_rules, dig, finding, has, listed
from tests.policy.samples import message, rule_named, server
from values import UNKNOWN_TEXT, UnknownValueError, readable

PARTLY_UNKNOWN = readable({"a": {"known": 1, "unknown": UNKNOWN_TEXT}, "l": [1, UNKNOWN_TEXT]})


def three_words(resource: Resource, settings: Settings) -> Iterator[Finding]:
    if len(resource.name.split()) > settings["most"]:
        yield finding(f"{resource.name} is long")


SAMPLE = ResourceRule(
    name="short-names",
    subject="sample",
    statement="Names are short.",
    evidence="long ones are cut",
    fix="shorten it",
    level="advisory",
    severity="low",
    settings=(
        Setting(name="most", type="integer", default=2, why="words"),
        Setting(name="free", type="string", why="unset by default"),
    ),
    judge=three_words,
)


def test_every_rule_is_there_once_and_says_what_it_must() -> None:
    names = [one.name for one in all_rules()]
    assert len(names) == len(set(names)) > 40
    for one in all_rules():
        assert one.name == one.name.lower().replace("_", "-").replace(" ", "-"), one.name
        assert one.statement.endswith("."), one.name
        assert "\n" not in one.statement, one.name
        assert len(one.evidence) > 40, one.name
        assert one.level.capitalize() in one.evidence, f"{one.name} does not argue its level"
        assert one.fix, one.name
        for setting in one.settings:
            assert setting.why, (one.name, setting.name)


def test_two_rules_of_one_name_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    twice = ModuleType("rules.twice")
    twice.RULES = (SAMPLE, SAMPLE)  # type: ignore[attr-defined]
    monkeypatch.setattr(rule.importlib, "import_module", lambda _name: twice)
    monkeypatch.setattr(rule.pkgutil, "iter_modules", lambda _path: [type("Found", (), {"name": "twice"})])
    with pytest.raises(ValueError, match="short-names"):
        rule.all_rules.__wrapped__()
    assert rules.__path__


def test_settings_are_defaults_under_what_was_given() -> None:
    assert rule.with_defaults(SAMPLE, {}) == {"most": 2, "free": None}
    assert rule.with_defaults(SAMPLE, {"most": 5.0, "free": "x"}) == {"most": 5.0, "free": "x"}


def test_a_message_says_what_why_how_and_how_much() -> None:
    (made,) = SAMPLE.judge(Resource(type="t", props={}, name="a long name"), {"most": 2})
    assert message(SAMPLE, made) == "a long name is long\nwhy: long ones are cut\nwrite: shorten it"
    assert message(SAMPLE, made, at_stake="$1").startswith("a long name is long; at stake: $1\nwhy: ")


def test_a_finding_may_know_better_than_its_rule() -> None:
    made = finding("w", why="because", write="do", at_stake="$2")
    assert message(SAMPLE, made, at_stake="$1") == "w; at stake: $2\nwhy: because\nwrite: do"


def test_digging_reads_only_what_it_is_asked_for() -> None:
    assert dig(PARTLY_UNKNOWN, "a", "known") == 1
    assert dig(PARTLY_UNKNOWN, "a", "other") is None
    assert dig(PARTLY_UNKNOWN, "a", "known", "deeper") is None
    assert dig(PARTLY_UNKNOWN, "l", 0) == 1
    assert dig(PARTLY_UNKNOWN, "l", 7) is None
    assert dig("text", 0) is None
    with pytest.raises(UnknownValueError):
        dig(PARTLY_UNKNOWN, "a", "unknown")


def test_whether_something_is_there_can_be_asked_without_reading_it() -> None:
    assert has(PARTLY_UNKNOWN["a"], "unknown")
    assert not has(PARTLY_UNKNOWN["a"], "other")
    assert not has(None, "a")


def test_items_are_read_one_by_one() -> None:
    items = iter(listed(PARTLY_UNKNOWN["l"]))
    assert next(items) == 1
    with pytest.raises(UnknownValueError):
        next(items)
    assert list(listed("text")) == list(listed(None)) == []


# Values that a preview cannot know: what is known is judged, and nothing is guessed.

TOKEN = "hf_" + "aB3" * 11


def resource_rule(name: str) -> ResourceRule:
    found = rule_named(name)
    assert isinstance(found, ResourceRule)
    return found


def seen(type_: str, props: Mapping[str, Any]) -> Resource:
    return Resource(type=type_, props=readable(dict(props)))


def test_an_unknown_value_hides_no_secret_beside_it() -> None:
    env = [{"name": "VLLM_API_KEY", "value": UNKNOWN_TEXT}, {"name": "ANY", "value": TOKEN}]
    secrets = resource_rule("secret-in-plain-text")
    judged = secrets.judge(
        seen("kubernetes:apps/v1:Deployment", server(container={"env": env}).props), rule.with_defaults(secrets, {})
    )
    first: Finding = next(judged)
    assert "env[1].value" in str(first.found)
    with pytest.raises(UnknownValueError):
        next(judged)


def test_an_unknown_value_that_nothing_calls_a_secret_is_left_to_the_update() -> None:
    router = seen("gcp:compute/router:Router", {"network": UNKNOWN_TEXT, "names": [UNKNOWN_TEXT, "a"]})
    assert list(resource_rule("secret-in-plain-text").judge(router, {})) == []


def test_an_account_that_is_not_made_yet_is_an_account() -> None:
    defaults = {"autoProvisioningDefaults": {"serviceAccount": UNKNOWN_TEXT}}
    cluster = seen("gcp:container/cluster:Cluster", {"enableAutopilot": True, "clusterAutoscaling": defaults})
    assert list(resource_rule("node-account-default").judge(cluster, {})) == []
