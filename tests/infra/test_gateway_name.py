from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import yaml

from fleet.preview.record.recorder import Recording
from fleet.preview.record.recorder import record as record_program
from tests.inventory import difference, inventory
from tests.support.recorded import ROOT, all_of, goes_before, named, only, recorded_platform
from tests.support.settings import make_config

HOST = "llm.acme.dev"
PUBLIC = "gke-l7-regional-external-managed"


def record(*, serving: bool = False, **keys: Any) -> Recording:
    gateway = {"enabled": True, "hostname": HOST, **keys}
    return recorded_platform(serving=serving, gateway=gateway, server={"apiKeySecret": "key"})


def test_an_internal_name_has_an_address_of_the_node_subnet_that_two_ports_share() -> None:
    address = only(record(), "compute/address:Address").inputs
    assert address["subnetwork"] == named(record(), "network-nodes").outputs["selfLink"]
    assert "networkTier" not in address


def test_a_public_name_has_a_public_address() -> None:
    address = only(record(gatewayClass=PUBLIC), "compute/address:Address").inputs
    assert (address["addressType"], address["networkTier"]) == ("EXTERNAL", "STANDARD")
    assert "subnetwork" not in address
    assert "purpose" not in address


def test_the_certificate_is_authorized_by_a_record_of_this_project() -> None:
    recording = record()
    authorization = only(recording, "certificatemanager/dnsAuthorization:DnsAuthorization").inputs["name"]
    assert only(recording, "certificatemanager/certificate:Certificate").inputs["managed"]["dnsAuthorizations"] == [
        f"projects/fleet-tests/locations/europe-west4/dnsAuthorizations/{authorization}"
    ]


def test_another_name_keeps_the_address_and_makes_another_certificate_before_the_old_one_goes() -> None:
    recordings = [record(hostname=host) for host in (HOST, "chat.acme.dev")]
    old, new = (only(one, "certificate:Certificate") for one in recordings)
    assert old.urn != new.urn
    assert old.inputs["name"] != new.inputs["name"]
    kept, same = (only(one, "compute/address:Address") for one in recordings)
    assert (kept.urn, kept.inputs) == (same.urn, same.inputs)


def test_what_exists_is_used_and_not_created() -> None:
    recording = record(serving=True, tls={"certificate": "wildcard"}, address="door")
    assert [all_of(recording, kind) for kind in ("Address", "Certificate", "DnsAuthorization")] == [[], [], []]
    (record_,) = recording.outputs["dns"]
    assert record_["type"] == "A"


@cache
def whole(**keys: Any) -> Recording:
    config = make_config(gateway={"enabled": True, **keys})
    return record_program(ROOT, project="vllm-fleet", stack="test", config=config, secret_keys=(), mode="known")


def test_the_load_balancer_goes_before_its_address_and_its_certificate() -> None:
    for needed in ("gateway-name-address", f"gateway-name-certificate-{HOST}"):
        assert goes_before(whole(hostname=HOST), "gateway-gateway", needed)


def test_what_a_host_name_adds_to_a_stack(golden: Callable[[str, str], None]) -> None:
    added = difference(inventory(whole()), inventory(whole(hostname=HOST)))
    golden("preview/host-name.yaml", yaml.safe_dump(added, sort_keys=False, width=140))
