"""The gateway's host name: address, name and certificate before and after `pulumi up`."""

from __future__ import annotations

import socket
from typing import Any
from unittest import mock

import pytest

from facts.finding import Finding
from facts.names import fitted
from fleet.clients.errors import LiveError
from fleet.doctor import door
from infra.naming import MAX_NAME
from settings.stack import Settings
from tests.fleet.doctor.fake_project import PROJECT, FakeProject, rows
from tests.support.rows import each_row
from tests.support.settings import make_settings

HOST, IP = "llm.acme.dev", "10.0.0.9"
OWN_CERTIFICATE = fitted(f"test-{HOST}", limit=MAX_NAME)
INTERNAL = {"address": IP, "addressType": "INTERNAL", "purpose": "SHARED_LOADBALANCER_VIP"}
CNAME = {"name": f"_acme-challenge_x.{HOST}.", "type": "CNAME", "data": "1.authorize.certificatemanager.goog."}
ACTIVE, WAITING = {"managed": {"state": "ACTIVE"}}, {"managed": {"state": "PROVISIONING"}}


def settings_of(**keys: Any) -> Settings:
    return make_settings(gateway={"enabled": True, "hostname": HOST, **keys})


OWN = settings_of()
GIVEN = settings_of(address="door", tls={"certificate": "wild"})
PUBLIC = settings_of(gatewayClass="gke-l7-regional-external-managed")


def three(settings: Settings, address: Any, name: list[str], certificate: Any) -> list[Finding]:
    """Rows of address, name and certificate; None for what does not exist."""
    names = [settings.gateway.address or "test-vllm-gateway", settings.gateway.tls.certificate or OWN_CERTIFICATE]
    paths = (
        f"{PROJECT}/regions/europe-west4/addresses/{names[0]}",
        f"certificatemanager.googleapis.com/v1/projects/fleet-tests/locations/europe-west4/certificates/{names[1]}",
    )
    said = {path: one for path, one in zip(paths, (address, certificate), strict=True) if one is not None}
    said[paths[1].replace("/certificates/", "/dnsAuthorizations/")] = {"dnsResourceRecord": CNAME}
    with mock.patch.object(door, "resolved", return_value=name):
        return [row for row in rows(settings, FakeProject(said)).values() if row.id == "domain"]


@each_row(
    ("settings", "address", "name", "certificate", "states"),
    [
        (OWN, INTERNAL, [IP], ACTIVE, ["passed", "passed", "passed"]),
        (OWN, None, [], None, ["note", "note", "note"]),
        (GIVEN, None, [], None, ["error", "note", "error"]),
        (GIVEN, INTERNAL, [IP], {"selfManaged": {}}, ["passed", "passed", "passed"]),
        (OWN, {**INTERNAL, "purpose": "GCE_ENDPOINT"}, [IP], ACTIVE, ["error", "passed", "passed"]),
        (OWN, {**INTERNAL, "addressType": "EXTERNAL"}, [IP], ACTIVE, ["error", "passed", "passed"]),
        (OWN, INTERNAL, ["192.0.2.1"], WAITING, ["passed", "error", "error"]),
        # A private zone answers in the VPC alone, a public one everywhere.
        (OWN, INTERNAL, [], ACTIVE, ["passed", "unknown", "passed"]),
        (PUBLIC, {"address": "34.1.2.3", "addressType": "EXTERNAL"}, [], ACTIVE, ["passed", "error", "passed"]),
    ],
)
def test_address_name_and_certificate(
    settings: Settings, address: Any, name: list[str], certificate: Any, states: list[str]
) -> None:
    found = three(settings, address, name, certificate)
    assert [row.severity for row in found] == states
    assert all(bool(row.write) == (row.severity != "passed") for row in found)


def test_records_to_create_are_shown_before_there_are_outputs() -> None:
    _, name, certificate = three(OWN, INTERNAL, ["192.0.2.1"], WAITING)
    assert name.write.endswith(f"{HOST}. A {IP}")
    assert certificate.write.endswith(" ".join(CNAME.values()))


def test_a_resolver_that_says_no_is_an_answer_and_a_silent_one_is_none() -> None:
    for number, found in ((socket.EAI_NONAME, []), (socket.EAI_AGAIN, None)):
        with mock.patch.object(socket, "getaddrinfo", side_effect=socket.gaierror(number, "no")):
            if found is None:
                with pytest.raises(LiveError):
                    door.resolved(HOST)
            else:
                assert door.resolved(HOST) == found
