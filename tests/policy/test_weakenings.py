"""What a change could plausibly add, within the words of a rule: found; and its sound neighbours: left alone."""

from __future__ import annotations

import importlib
import pkgutil

from rule import Resource, ResourceRule, with_defaults
from tests.policy import weak
from tests.policy.samples import rule_named
from tests.policy.weak import Row
from tests.support.rows import each_row

_TABLES = [importlib.import_module(f"{weak.__name__}.{one.name}") for one in pkgutil.iter_modules(weak.__path__)]


def _findings(row: Row) -> list[str]:
    resources = [
        Resource(type=type_, props=props, name=f"r{index}", urn=f"urn:pulumi:s::p::{type_}::r{index}")
        for index, (type_, props) in enumerate(row.resources)
    ]
    rule = rule_named(row.rule)
    settings = with_defaults(rule, {})
    if isinstance(rule, ResourceRule):
        return [str(one.found) for resource in resources for one in rule.judge(resource, settings)]
    return [str(one.found) for one in rule.judge(resources, settings)]


@each_row("row", [row for one in _TABLES for row in one.WEAK])
def test_a_weakening_is_found(row: Row) -> None:
    assert _findings(row)


@each_row("row", [row for one in _TABLES for row in one.SOUND])
def test_a_sound_neighbour_is_left_alone(row: Row) -> None:
    assert _findings(row) == []
