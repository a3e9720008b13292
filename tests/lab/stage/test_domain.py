from __future__ import annotations

import pytest

from fleet.preview.record.synthesis import Cloud
from lab.providers.google.cloud import SERVICE, SimulatedCloud
from lab.stage.domain import ADDRESS, AUTHORIZATION, CERTIFICATE, Domain

PLACE = Cloud(project="fleet-tests", region="europe-west4", zone=None, seed="vllm-fleet/test")
HOST = "llm.rehearsal.dev"


@pytest.fixture
def cloud() -> SimulatedCloud:
    found = SimulatedCloud()
    for api in ("compute", "certificatemanager"):
        found.create(SERVICE, api, {"service": f"{api}.googleapis.com", "project": PLACE.project}, PLACE)
    return found


def issued(cloud: SimulatedCloud) -> dict[str, str]:
    """Creates a certificate named `llm`; the record that it waits for."""
    place = {"name": "llm", "project": PLACE.project, "location": "europe-west4"}
    authorization = cloud.create(AUTHORIZATION, "a", {**place, "domain": HOST}, PLACE)
    managed = {"domains": [HOST], "dnsAuthorizations": [authorization.id]}
    cloud.create(CERTIFICATE, "c", {**place, "managed": managed}, PLACE)
    record: dict[str, str] = authorization.outputs["dnsResourceRecords"][0]
    return record


def test_a_certificate_is_active_only_with_the_record_in_the_public_dns(cloud: SimulatedCloud) -> None:
    domain, record = Domain(cloud), issued(cloud)
    assert domain.certificate("llm") == "PROVISIONING"
    domain.public_dns[record["name"]] = "elsewhere.example."
    assert domain.certificate("llm") == "PROVISIONING"
    domain.public_dns[record["name"]] = record["data"]
    assert domain.certificate("llm") == "ACTIVE"


def test_what_nobody_made_is_not_there_and_what_the_stack_file_names_is_believed(cloud: SimulatedCloud) -> None:
    assert (Domain(cloud).certificate("llm"), Domain(cloud).address("door")) == (None, None)
    given = Domain(cloud, given_address="door", given_certificate="llm")
    assert (given.certificate("llm"), given.address("door")) == ("ACTIVE", "")


def test_an_address_that_was_made_is_the_one_of_its_output(cloud: SimulatedCloud) -> None:
    made = cloud.create(ADDRESS, "a", {"name": "door", "project": PLACE.project, "region": "europe-west4"}, PLACE)
    assert Domain(cloud, given_address="door").address("door") == made.outputs["address"]
