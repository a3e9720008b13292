"""What a host name of the gateway and a picker's release need, said before anything is created."""

from __future__ import annotations

from typing import Any

import pytest

from facts.finding import Finding
from settings.derived.figures import fleet_shape
from settings.derived.google_cloud_needs import required_apis, required_permissions
from settings.load import check
from settings.problems import SettingsError
from tests.support.rows import each_row
from tests.support.settings import make_settings

HOST = "llm.acme.dev"
PUBLIC = "gke-l7-regional-external-managed"
KEYED = {"replicas": 8, "apiKeySecret": "key"}
LLM_D: dict[str, Any] = {"enabled": True, "epp": {"release": "llm-d-router-v0.10.0"}}
GUEST = {"platform": {"stack": "acme/vllm-fleet/base"}}


def found(**sections: Any) -> dict[str, Finding]:
    return {problem.id: problem for problem in check(make_settings(**sections))}


def named(**keys: Any) -> dict[str, Any]:
    return {"enabled": True, "hostname": HOST, **keys}


@each_row(
    ("gateway", "id_", "subject"),
    [
        ({"hostname": HOST}, "without-effect", "gateway.hostname"),
        ({"address": "door"}, "without-effect", "gateway.address"),
        ({"enabled": True, "tls": {"certificate": "c"}}, "without-effect", "gateway.tls.certificate"),
        ({**LLM_D, "pool": "p" * 35}, "pool-name-too-long", "gateway.pool"),
    ],
)
def test_a_name_without_what_it_names_is_refused(gateway: dict[str, Any], id_: str, subject: str) -> None:
    problem = found(gateway=gateway)[id_]
    assert (problem.subject, problem.severity) == (f"vllm-fleet:{subject}", "error")


@each_row("host", ["llm.local", "x.localdomain", "llm.prod.svc.cluster.local", "llm.home.arpa"])
def test_a_name_that_no_public_record_can_prove_needs_a_certificate_of_its_own(host: str) -> None:
    assert found(gateway=named(hostname=host))["hostname-not-public"].subject == "vllm-fleet:gateway.hostname"
    assert "hostname-not-public" not in found(gateway=named(hostname=host, tls={"certificate": "own"}))


def test_another_picker_has_another_pool_and_the_same_route() -> None:
    settings = make_settings(gateway={**LLM_D, "pool": "p" * 34})
    assert "pool-name-too-long" not in found(gateway={**LLM_D, "pool": "p" * 34})
    assert settings.shares == {f"{'p' * 34}-llm-d": 100}
    # The article's figures are of its own picker.
    assert settings.routing == "llm-d-picker"
    assert make_settings(gateway={"enabled": True}).shares == {"qwen35-pool": 100}


def test_a_host_name_alone_is_enough() -> None:
    assert [one for one in found(gateway=named()).values() if one.severity == "error"] == []


def test_a_guest_names_the_internal_address_because_it_does_not_know_the_subnet() -> None:
    assert "address-without-subnet" in found(gateway=named(), **GUEST)
    assert "address-without-subnet" not in found(gateway=named(address="door"), **GUEST)
    assert "address-without-subnet" not in found(gateway=named(gatewayClass=PUBLIC), server=KEYED, **GUEST)
    assert "address-without-subnet" not in found(gateway={"enabled": True}, **GUEST)


def test_a_public_gateway_without_a_name_shows_its_key_to_the_internet() -> None:
    public = {"enabled": True, "gatewayClass": PUBLIC}
    assert found(gateway=public, server=KEYED)["public-in-clear-text"].severity == "warning"
    assert "public-in-clear-text" not in found(gateway=named(gatewayClass=PUBLIC), server=KEYED)
    assert "public-in-clear-text" not in found(gateway={"enabled": True})


def test_the_first_update_measures_nothing_through_a_name_that_does_not_resolve_yet() -> None:
    benchmark = {"enabled": True}
    assert "benchmark-before-certificate" in found(gateway=named(), benchmark=benchmark)
    assert "benchmark-before-certificate" not in found(gateway=named(), benchmark={**benchmark, "runOnUpdate": False})
    assert "benchmark-before-certificate" not in found(gateway=named(tls={"certificate": "c"}), benchmark=benchmark)


@pytest.mark.parametrize(
    "host", ["localhost", "LLM.acme.dev", "203.0.113.7", "*.acme.dev", "https://llm.acme.dev", "-a.dev"]
)
def test_what_is_no_full_host_name_is_refused(host: str) -> None:
    with pytest.raises(SettingsError, match=r"gateway\.hostname"):
        make_settings(gateway=named(hostname=host))


MANAGER = "certificatemanager.googleapis.com"


@each_row(
    ("gateway", "asked", "rules", "addresses", "certificates"),
    [
        ({"enabled": True}, set(), 1, 0, 0),
        (named(), {"certs.create", "dnsauthorizations.create", "addresses.createInternal"}, 2, 0, 1),
        (named(gatewayClass=PUBLIC), {"certs.create", "dnsauthorizations.create", "addresses.create"}, 2, 1, 1),
        (named(tls={"certificate": "c"}), {"addresses.createInternal"}, 2, 0, 0),
        (named(tls={"certificate": "c"}, address="door"), set(), 2, 0, 0),
    ],
)
def test_what_is_created_is_asked_for_and_paid(
    gateway: dict[str, Any], asked: set[str], rules: int, addresses: int, certificates: int
) -> None:
    settings = make_settings(gateway=gateway, server=KEYED)
    of_name = ("certificatemanager.", "compute.addresses.")
    permissions = {one.partition(".")[2] for one in required_permissions(settings) if one.startswith(of_name)}
    assert permissions == asked
    assert (MANAGER in required_apis(settings)) is bool(certificates)
    shape = fleet_shape(settings)
    assert (shape.load_balancers, shape.gateway_addresses, shape.certificates) == (rules, addresses, certificates)
