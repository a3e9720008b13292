from __future__ import annotations

import pytest

from settings.derived.google_cloud_needs import required_apis
from tests.support.recorded import BASE_STACK, BUDGET, GATEWAY
from tests.support.settings import make_settings

ALWAYS = {
    "artifactregistry.googleapis.com",
    "cloudresourcemanager.googleapis.com",
    "compute.googleapis.com",
    "container.googleapis.com",
    "containerfilesystem.googleapis.com",
    "iam.googleapis.com",
    "logging.googleapis.com",
    "monitoring.googleapis.com",
    "storage.googleapis.com",
}


@pytest.mark.parametrize(
    ("sections", "api"),
    [
        ({"gateway": GATEWAY}, "networkservices.googleapis.com"),
        ({"budget": BUDGET}, "billingbudgets.googleapis.com"),
        ({"weights": {"tokenSecret": "hf"}}, "secretmanager.googleapis.com"),
        ({"server": {"apiKeySecret": "key"}}, "secretmanager.googleapis.com"),
    ],
)
def test_each_option_adds_its_own_api_and_no_other(sections: dict[str, object], api: str) -> None:
    assert set(required_apis(make_settings(**sections))) == ALWAYS | {api}


def test_a_guest_with_compile_caches_has_a_bucket_of_its_own() -> None:
    guest = {"platform": {"stack": BASE_STACK}, "server": {"compileCache": {"enabled": True}}}
    assert required_apis(make_settings(**guest)) == ("storage.googleapis.com",)


def test_a_stack_on_another_ones_cluster_needs_only_what_it_adds() -> None:
    guest = {"platform": {"stack": BASE_STACK}, "namespace": "guest"}
    assert required_apis(make_settings(**guest)) == ()
    assert required_apis(make_settings(**guest, gateway=GATEWAY, budget=BUDGET)) == (
        "billingbudgets.googleapis.com",
        "networkservices.googleapis.com",
    )


def test_the_order_is_the_same_every_time() -> None:
    apis = required_apis(make_settings(gateway=GATEWAY, budget=BUDGET))
    assert list(apis) == sorted(apis)
