"""Whether the gateway's host name leads to its address, and has a certificate: three rows. `fleet verify` sees what clients see."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from facts.finding import Finding
from facts.names import fitted
from fleet.clients.errors import LiveError
from fleet.doctor.google import COMPUTE
from fleet.doctor.rows import Question, State, row
from infra.naming import MAX_NAME, name_of

if TYPE_CHECKING:
    from fleet.doctor.google import Google
    from settings.stack import Settings

CERTIFICATES: Final = "https://certificatemanager.googleapis.com/v1"
_CREATE: Final = "create the record, where the domain is: "
_NO_SUCH_NAME: Final = frozenset({socket.EAI_NONAME, getattr(socket, "EAI_NODATA", socket.EAI_NONAME)})
"""Errors of a resolver that answered. Others mean that it did not."""


def questions(settings: Settings) -> Iterator[Question]:
    """About a gateway with a host name."""
    host = settings.gateway.hostname
    if not settings.gateway.enabled or host is None:
        return
    where = f"--project={settings.project}"
    yield Question(
        area="domain",
        name=host,
        ask=lambda google: _address_and_name(settings, host, google),
        look=f"dig +short {host}; gcloud compute addresses list --regions={settings.region} {where}",
    )
    certificate = settings.gateway.tls.certificate or fitted(f"{settings.stack}-{host}", limit=MAX_NAME)
    yield Question(
        area="domain",
        name=f"certificate {certificate}",
        ask=lambda google: _certificate(settings, certificate, google),
        look=f"gcloud certificate-manager certificates describe {certificate} --location={settings.region} {where}",
    )


def _address_and_name(settings: Settings, host: str, google: Google) -> Iterator[Finding]:
    gateway = settings.gateway
    name = gateway.address or name_of(settings.stack, "vllm-gateway")
    found: Any = google.find(f"{COMPUTE}/projects/{settings.project}/regions/{settings.region}/addresses/{name}")
    kind, purpose = ("EXTERNAL", "") if gateway.is_public else ("INTERNAL", "SHARED_LOADBALANCER_VIP")
    right = found is not None and found["addressType"] == kind and (not purpose or found.get("purpose") == purpose)
    yield row(
        area="domain",
        name=f"address {name}",
        state="ready" if right else "by up" if found is None and gateway.makes_address else "missing",
        needed=f"{kind} {purpose}".strip(),
        granted="none" if found is None else f"{found['addressType']} {found.get('purpose', '')}".strip(),
        mend="`pulumi up` creates it"
        if found is None and gateway.makes_address
        else "another vllm-fleet:gateway: {address: NAME}",
    )
    known, leads_to = (None if found is None else found["address"]), resolved(host)
    state: State = "by up" if known is None else "ready" if known in leads_to else "missing"
    if state == "missing" and not leads_to and not gateway.is_public:
        state = "unknown"
    yield row(
        area="domain",
        name=host,
        state=state,
        needed=known or "the gateway's address",
        granted=", ".join(leads_to) or "does not resolve",
        why="" if gateway.is_public else "a private DNS zone answers in the VPC only",
        mend=f"{_CREATE}{host}. A {known or 'the address, which `pulumi up` shows as output dns'}",
    )


def resolved(host: str) -> list[str]:
    """Sorted IPv4 addresses of a name, as this machine resolves it; empty if there is none. Raises LiveError without a resolver."""
    try:
        found = socket.getaddrinfo(host, None, socket.AF_INET, socket.SOCK_STREAM)
    except socket.gaierror as error:
        if error.errno in _NO_SUCH_NAME:
            return []
        raise LiveError(f"no answer from the resolver: {error.strerror}", reason="unreachable") from None
    return sorted({str(one[4][0]) for one in found})


def _certificate(settings: Settings, name: str, google: Google) -> Iterator[Finding]:
    own = settings.gateway.makes_certificate
    where = f"{CERTIFICATES}/projects/{settings.project}/locations/{settings.region}"
    found: Any = google.find(f"{where}/certificates/{name}")
    # One of your own has no state.
    state = "none" if found is None else found["managed"]["state"] if "managed" in found else "ACTIVE"
    mend = "`pulumi up` creates it" if own else "vllm-fleet:gateway: {tls: {certificate: NAME}}, or remove tls"
    if own and found is not None and state != "ACTIVE":
        # Where `pulumi up` stopped before its outputs, nothing else shows it.
        record: Any = google.get(f"{where}/dnsAuthorizations/{name}")["dnsResourceRecord"]
        mend = f"{_CREATE}{record['name']} {record['type']} {record['data']}"
    yield row(
        area="domain",
        name=f"certificate {name}",
        state="ready" if state == "ACTIVE" else "by up" if found is None and own else "missing",
        needed="ACTIVE",
        granted=state,
        why="Google issues it once it finds the record in the public DNS"
        if own
        else "clients refuse a name without it",
        mend=mend,
    )
