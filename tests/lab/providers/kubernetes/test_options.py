"""Annotations as the provider reads them."""

from __future__ import annotations

import pytest

from lab.providers.kubernetes.options import Options, options_of


def of(**annotations: str) -> Options:
    return options_of({"metadata": {"annotations": {f"pulumi.com/{key}": value for key, value in annotations.items()}}})


def test_nothing_is_asked_for_without_annotations() -> None:
    assert options_of({"metadata": {"name": "x"}}) == Options()


@pytest.mark.parametrize(("value", "skips"), [("true", True), ("false", False), ("True", False), ("yes", False)])
def test_only_the_word_true_skips_the_wait(value: str, skips: bool) -> None:
    assert of(skipAwait=value).skip_await is skips


def test_one_condition_or_a_list_of_them() -> None:
    assert of(waitFor="condition=Programmed").wait_for == ("condition=Programmed",)
    assert of(waitFor='["condition=A", "jsonpath={.status.b}=1"]').wait_for == ("condition=A", "jsonpath={.status.b}=1")


@pytest.mark.parametrize("value", ["Programmed", '["Programmed"]', "[]"])
def test_a_condition_that_the_provider_refuses_is_refused(value: str) -> None:
    with pytest.raises(ValueError, match="waitFor"):
        of(waitFor=value)
