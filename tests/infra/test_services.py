from __future__ import annotations

from settings.derived.google_cloud_needs import required_apis
from tests.infra.test_image_registry import ACCOUNT
from tests.support.recorded import BASE_STACK, BUDGET, GATEWAY
from tests.support.rows import each_row
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


GUEST = {"platform": {"stack": BASE_STACK}, "namespace": "guest"}


@each_row(
    ("sections", "apis"),
    [
        ({"gateway": GATEWAY}, ALWAYS | {"networkservices.googleapis.com"}),
        ({"budget": BUDGET}, ALWAYS | {"billingbudgets.googleapis.com"}),
        ({"weights": {"tokenSecret": "hf"}}, ALWAYS | {"secretmanager.googleapis.com"}),
        ({"server": {"apiKeySecret": "key"}}, ALWAYS | {"secretmanager.googleapis.com"}),
        ({"registry": ACCOUNT}, ALWAYS | {"secretmanager.googleapis.com"}),
        # A stack on another one's cluster needs only what it adds: a bucket of its own for compile caches.
        (GUEST, set()),
        (GUEST | {"server": {"compileCache": {"enabled": True}}}, {"storage.googleapis.com"}),
        (
            GUEST | {"gateway": GATEWAY, "budget": BUDGET},
            {"billingbudgets.googleapis.com", "networkservices.googleapis.com"},
        ),
        # Nothing but the project's number is asked for beside somebody's cluster.
        ({"platform": {"kubeconfig": "tests/infra/given_cluster.yaml"}}, {"cloudresourcemanager.googleapis.com"}),
    ],
)
def test_each_option_adds_its_own_api_and_no_other(sections: dict[str, object], apis: set[str]) -> None:
    assert required_apis(make_settings(**sections)) == tuple(sorted(apis))
