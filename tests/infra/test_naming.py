from __future__ import annotations

import re

import pytest

from infra.naming import MAX_ACCOUNT_ID, bucket_name_of, name_of, title
from tests.support.recorded import only, recorded_platform
from tests.support.rows import each_row
from tests.support.settings import make_settings

LONG = "team-inference-production-europe-west-four-a-very-long-stack-name"


def test_a_plain_stack_name_is_the_prefix_as_it_is() -> None:
    assert name_of("spot", "vllm-nat") == "spot-vllm-nat"
    assert bucket_name_of("fleet-tests", "spot", "vllm-results") == "fleet-tests-spot-vllm-results"


@each_row("stack", ["spot", "Dev", "9lives", "a.b_c", LONG, "x" * 100, "-", "dev-"])
@each_row("limit", [MAX_ACCOUNT_ID, 63])
def test_every_name_is_one_that_google_cloud_accepts(stack: str, limit: int) -> None:
    name = name_of(stack, "vllm-nodes", limit=limit)
    assert re.fullmatch(r"[a-z]([-a-z0-9]*[a-z0-9])", name)
    assert 6 <= len(name) <= limit


@pytest.mark.parametrize(("one", "other"), [("Dev", "dev"), ("a.b", "a-b"), (LONG, LONG + "-2"), ("dev-", "dev")])
def test_stacks_that_look_alike_after_cleaning_still_get_different_names(one: str, other: str) -> None:
    for limit in (MAX_ACCOUNT_ID, 63):
        assert name_of(one, "vllm-nodes", limit=limit) != name_of(other, "vllm-nodes", limit=limit)


def test_a_bucket_name_of_the_longest_project_and_a_long_stack_fits() -> None:
    name = bucket_name_of("a" * 30, LONG, "vllm-results")
    assert len(name) <= 63
    assert name.startswith("a" * 30 + "-team-")
    assert name.endswith("-vllm-results")


def test_what_people_read_is_cut_where_the_api_has_no_more_room() -> None:
    assert title("vllm-fleet spot (fleet-tests)", 60) == "vllm-fleet spot (fleet-tests)"
    assert title("x" * 60, 60) == "x" * 60
    assert title("x" * 61, 60) == "x" * 57 + "..."


def test_display_names_of_a_long_stack_and_the_longest_project_fit_their_apis() -> None:
    budget = {"billingAccount": "01ABCD-234567-89EFAB", "usdPerMonth": 1}
    recording = recorded_platform(stack="x" * 100, project="a" * 30, budget=budget)
    assert len(only(recording, "billing/budget:Budget").inputs["displayName"]) == 60
    assert len(only(recording, "serviceaccount/account:Account").inputs["displayName"]) == 100


def test_labels_keep_the_stack_files_own_and_add_app_and_stack() -> None:
    assert make_settings("spot", labels={"team": "inference"}).google_labels == {
        "team": "inference",
        "app": "vllm-fleet",
        "stack": "spot",
    }


def test_the_stack_label_is_a_valid_value_whatever_the_stack_is_called() -> None:
    assert re.fullmatch(r"[a-z][-_a-z0-9]{0,62}", make_settings("Prod.EU" + LONG).google_labels["stack"])
