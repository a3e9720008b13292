"""Warnings of an API server, out of their headers."""

from __future__ import annotations

from lab.warning_header import texts


def test_the_text_is_what_stands_in_the_quotes() -> None:
    assert texts(['299 - "spec.x: deprecated"']) == ["spec.x: deprecated"]


def test_quotes_and_backslashes_in_the_text_are_its_own() -> None:
    assert texts([r'299 kube "gke-spot is \"yes\", in C:\\x"']) == [r'gke-spot is "yes", in C:\x']


def test_each_warning_is_said_once_and_in_order() -> None:
    assert texts(['299 - "b"', '299 - "a"', '299 - "b"']) == ["b", "a"]


def test_what_has_another_form_is_left_as_it_is() -> None:
    assert texts(["110 cache stale"]) == ["110 cache stale"]
    assert texts([]) == []
