"""The gateway's host name: what is asked, and what the answers mean.

Forms: Compute API v1, Address; Certificate Manager API v1, Certificate and DnsAuthorization.
"""

from __future__ import annotations

import socket
from typing import Any
from unittest import mock

import pytest

from facts.finding import Finding
from fleet.doctor import gcloud, judge_domain, questions
from fleet.doctor.gcloud import NoAnswerError
from fleet.doctor.judge import judge
from settings.stack import Settings
from tests.fleet.doctor.test_judge import answered
from tests.support.rows import each_row
from tests.support.settings import make_settings

HOST, IP = "llm.acme.dev", "10.0.0.9"
CREATED = "address test-vllm-gateway"
CNAME = {"name": f"_acme-challenge_x.{HOST}.", "type": "CNAME", "data": "1.authorize.certificatemanager.goog."}
INTERNAL = {"name": "door", "address": IP, "addressType": "INTERNAL", "purpose": "SHARED_LOADBALANCER_VIP"}
ISSUED = {
    "sanDnsnames": [HOST],
    "managed": {"domains": [HOST], "state": "ACTIVE"},
    "expireTime": "2099-01-01T00:00:00Z",
}
WAITING = {
    "managed": {
        "domains": [HOST],
        "state": "PROVISIONING",
        "authorizationAttemptInfo": [{"domain": HOST, "state": "FAILED", "failureReason": "CONFIG"}],
    }
}


def settings_of(**keys: Any) -> Settings:
    return make_settings(gateway={"enabled": True, "hostname": HOST, **keys})


OWN = settings_of()
GIVEN = settings_of(address="door", tls={"certificate": "wild"})
PUBLIC = settings_of(gatewayClass="gke-l7-regional-external-managed")


def rows(settings: Settings = OWN, **changed: Any) -> dict[str, Finding]:
    said: dict[str, Any] = {
        "address": INTERNAL,
        "certificate": ISSUED,
        "authorization": {"dnsResourceRecord": CNAME},
        "host name": [IP],
    } | {name.replace("_", " "): answer for name, answer in changed.items()}
    plain = answered(make_settings(gateway={"enabled": True}))
    rights = {"permissions": {"permissions": list(questions.required_permissions(settings))}}
    found = judge(settings, plain | rights | said)
    return {row.subject: row for row in found if row.id == "domain"}


def certificate(**changed: Any) -> Finding:
    return next(row for name, row in rows(**changed).items() if name.startswith("certificate "))


def test_a_name_with_address_record_and_certificate_is_ready() -> None:
    found = rows()
    assert set(found) == {CREATED, HOST, f"certificate {judge_domain.certificate_name(OWN)}"}
    assert {row.severity for row in found.values()} == {"passed"}


def test_before_the_first_update_nothing_is_missing() -> None:
    found = rows(address={}, certificate={}, authorization={}, host_name=[])
    assert {row.severity for row in found.values()} == {"note"}


def test_what_the_stack_file_names_must_exist() -> None:
    found = rows(GIVEN, address={}, certificate={}, host_name=[])
    assert (found["address door"].severity, found["certificate wild"].severity) == ("error", "error")
    assert "--purpose=SHARED_LOADBALANCER_VIP" in found["address door"].write


@each_row(
    ("changed", "wrong"),
    [({"purpose": "GCE_ENDPOINT"}, "SHARED_LOADBALANCER_VIP"), ({"addressType": "EXTERNAL"}, "EXTERNAL")],
)
def test_an_address_that_two_ports_cannot_share_is_refused(changed: dict[str, str], wrong: str) -> None:
    row = rows(address={**INTERNAL, **changed})[CREATED]
    assert (row.severity, wrong in row.why) == ("error", True)


def test_a_name_that_leads_elsewhere_needs_its_record() -> None:
    row = rows(host_name=["192.0.2.1"])[HOST]
    assert (row.severity, row.found) == ("error", "192.0.2.1")
    assert row.write.endswith(f"{HOST}. A {IP}")


def test_a_name_in_a_private_zone_may_be_unknown_here_and_a_public_one_may_not() -> None:
    assert rows(host_name=[])[HOST].severity == "unknown"
    public = {"address": "203.0.113.9", "addressType": "EXTERNAL"}
    assert rows(PUBLIC, address=public, host_name=[])[HOST].severity == "error"


def test_a_certificate_that_waits_names_the_record_it_waits_for() -> None:
    row = certificate(certificate=WAITING)
    assert (row.severity, row.found) == ("error", "PROVISIONING")
    assert "FAILED, CONFIG" in row.why
    assert row.write.endswith(" ".join(CNAME.values()))
    assert "dns-authorizations list" in certificate(certificate=WAITING, authorization={}).write


@each_row(
    ("names", "severity"),
    [([HOST], "passed"), (["*.acme.dev"], "passed"), (["*.dev"], "error"), (["acme.dev"], "error")],
)
def test_a_certificate_has_the_name_that_clients_call(names: list[str], severity: str) -> None:
    own = {"sanDnsnames": names, "selfManaged": {}, "expireTime": "2099-01-01T00:00:00Z"}
    assert certificate(settings=GIVEN, certificate=own).severity == severity


def test_an_expired_certificate_is_missing() -> None:
    own = {"sanDnsnames": [HOST], "selfManaged": {}, "expireTime": "2026-01-01T00:00:00Z"}
    row = certificate(settings=GIVEN, certificate=own)
    assert (row.severity, row.found) == ("error", "expired")


@each_row("answer", [NoAnswerError("no", "forbidden"), [], {"managed": {"state": "ACTIVE"}, "sanDnsnames": [HOST]}])
def test_an_answer_that_cannot_be_read_is_unknown(answer: Any) -> None:
    assert certificate(certificate=answer).severity == "unknown"


def test_only_what_the_stack_has_is_asked_for() -> None:
    assert judge_domain.domain_questions(make_settings(gateway={"enabled": True})) == {}
    assert "authorization" not in judge_domain.domain_questions(GIVEN)
    assert set(judge_domain.domain_questions(OWN)) == {"address", "certificate", "authorization", "host name"}


def test_what_does_not_exist_yet_is_an_answer_and_a_refusal_is_none() -> None:
    asked = judge_domain.domain_questions(OWN)["certificate"]
    with mock.patch.object(gcloud, "ask", side_effect=NoAnswerError("no", "not found")):
        assert asked() == {}
    with mock.patch.object(gcloud, "ask", side_effect=NoAnswerError("no", "forbidden")), pytest.raises(NoAnswerError):
        asked()


def test_a_resolver_that_says_no_is_an_answer_and_a_silent_one_is_none() -> None:
    with mock.patch("socket.getaddrinfo", side_effect=socket.gaierror(socket.EAI_NONAME, "no")):
        assert judge_domain.resolved(HOST) == []
    with (
        mock.patch("socket.getaddrinfo", side_effect=socket.gaierror(socket.EAI_AGAIN, "later")),
        pytest.raises(NoAnswerError),
    ):
        judge_domain.resolved(HOST)
