"""Whatever of a rendered resource is taken away or weakened: a rule of the pack says so, or `harmless` says why none has to."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.policy.harmless import entries, excuse
from tests.policy.leaves import Leaf, leaves

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def changes() -> Sequence[Leaf]:
    return tuple(leaves())


def test_there_are_thousands_of_changes_and_many_rules_speak(changes: Sequence[Leaf]) -> None:
    assert len(changes) > 2500
    assert len({rule for one in changes for rule in one.caught_by}) > 60


def test_what_no_rule_sees_is_listed_as_harmless(changes: Sequence[Leaf]) -> None:
    assert [one.label for one in changes if not one.caught_by and excuse(one.place) is None] == []


def test_every_entry_of_the_list_excuses_something(changes: Sequence[Leaf]) -> None:
    used = {found for one in changes if not one.caught_by and (found := excuse(one.place))}
    assert sorted(entries() - used) == []
