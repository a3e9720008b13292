"""Whether the gateway's host name leads to its address, and has a certificate."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, Final

from facts.finding import Finding
from facts.names import fitted
from fleet.doctor import gcloud
from fleet.doctor.gcloud import NoAnswerError
from fleet.doctor.rows import row
from fleet.doctor.shapes import mapping, objects, texts, unreadable, word
from infra.naming import MAX_NAME, name_of

if TYPE_CHECKING:
    from settings.stack import Settings

Read = Callable[[Any], Iterator[Finding]]
ADDRESS, CERTIFICATE, AUTHORIZATION, NAME = "address", "certificate", "authorization", "host name"
"""Names of the queries."""
_NO_SUCH_NAME: Final = frozenset({socket.EAI_NONAME, getattr(socket, "EAI_NODATA", socket.EAI_NONAME)})
"""Errors of a resolver that answered. Others mean that it did not."""


def address_name(settings: Settings) -> str:
    """Name of the gateway's static address, existing or created."""
    return settings.gateway.address or name_of(settings.stack, "vllm-gateway")


def certificate_name(settings: Settings) -> str:
    """Name of the certificate, existing or created, and of the created one's DNS authorization."""
    return settings.gateway.tls.certificate or fitted(f"{settings.stack}-{settings.gateway.hostname}", limit=MAX_NAME)


def has_domain(settings: Settings) -> bool:
    """Whether there is a name to ask about."""
    return settings.gateway.enabled and settings.gateway.hostname is not None


def domain_questions(settings: Settings) -> dict[str, Callable[[], Any]]:
    """Queries about the host name, by name: what exists; empty for what does not."""
    if not has_domain(settings):
        return {}
    place = (f"--project={settings.project}",)
    host, certificate = settings.gateway.hostname or "", certificate_name(settings)
    manager, located = "certificate-manager", (f"--location={settings.region}", *place)
    asked: dict[str, Callable[[], Any]] = {
        ADDRESS: lambda: _if_any(
            "compute", "addresses", "describe", address_name(settings), f"--region={settings.region}", *place
        ),
        CERTIFICATE: lambda: _if_any(manager, "certificates", "describe", certificate, *located),
        NAME: lambda: resolved(host),
    }
    if settings.gateway.makes_certificate:
        asked[AUTHORIZATION] = lambda: _if_any(manager, "dns-authorizations", "describe", certificate, *located)
    return asked


def _if_any(*arguments: str) -> Any:
    try:
        return gcloud.ask(*arguments)
    except NoAnswerError as error:
        if error.reason in ("not found", "API off"):
            return {}
        raise


def resolved(host: str) -> list[str]:
    """Sorted IPv4 addresses of a name, as this machine resolves it; empty if there is none. Raises NoAnswerError without a resolver."""
    try:
        found = socket.getaddrinfo(host, None, socket.AF_INET, socket.SOCK_STREAM)
    except socket.gaierror as error:
        if error.errno in _NO_SUCH_NAME:
            return []
        raise NoAnswerError(f"no answer from the resolver: {error.strerror}", "unreachable") from None
    except OSError as error:
        raise NoAnswerError(f"no answer from the resolver: {error}", "unreachable") from None
    return sorted({str(one[4][0]) for one in found})


def domain_rows(settings: Settings, answers: Mapping[str, Any]) -> Iterator[tuple[str, str, Any, Read, str]]:
    """For each requirement: the row's name, what is needed, the answer, what reads it, and how to look."""
    if not has_domain(settings):
        return
    host, of_project = settings.gateway.hostname or "", f"--project={settings.project}"
    address, certificate = answers[ADDRESS], answers[CERTIFICATE]
    there = f"--location={settings.region} {of_project}"
    name = address_name(settings)
    yield (
        f"address {name}",
        "reserved",
        address,
        lambda said: _address(settings, name, mapping(said)),
        f"gcloud compute addresses describe {name} --region={settings.region} {of_project}",
    )
    yield (
        host,
        "the gateway's address",
        answers[NAME],
        lambda said: _name(settings, texts(said), None if isinstance(address, NoAnswerError) else address),
        f"dig +short {host}",
    )
    yield (
        f"certificate {certificate_name(settings)}",
        "ACTIVE",
        certificate,
        lambda said: _certificate(settings, mapping(said), answers.get(AUTHORIZATION)),
        f"gcloud certificate-manager certificates describe {certificate_name(settings)} {there}",
    )


def _address(settings: Settings, name: str, found: Mapping[str, Any]) -> Iterator[Finding]:
    kind = "EXTERNAL" if settings.gateway.is_public else "INTERNAL"
    if not found:
        own = settings.gateway.makes_address
        purpose = "" if settings.gateway.is_public else " --subnet=SUBNET --purpose=SHARED_LOADBALANCER_VIP"
        yield row(
            area="domain",
            name=f"address {name}",
            state="by up" if own else "missing",
            needed=kind,
            granted="not there yet" if own else "none",
            missing="" if own else name,
            why="created by `pulumi up`" if own else f"gateway.address names it, and {settings.region} has none",
            mend=""
            if own
            else f"gcloud compute addresses create {name} --region={settings.region} --project={settings.project}{purpose}",
        )
        return
    wrong = [] if found.get("addressType") == kind else [f"it is {found.get('addressType')}"]
    if not settings.gateway.is_public and found.get("purpose") != "SHARED_LOADBALANCER_VIP":
        wrong.append(f"its purpose is {found.get('purpose')}, and ports 80 and 443 need SHARED_LOADBALANCER_VIP")
    yield row(
        area="domain",
        name=f"address {name}",
        state="missing" if wrong else "ready",
        needed=kind,
        granted=word(found.get("address")),
        why="; ".join(wrong),
        mend="vllm-fleet:gateway: {address: ANOTHER-NAME}" if wrong else "",
    )


def _name(settings: Settings, found: list[str] | Any, address: Any) -> Iterator[Finding]:
    host = settings.gateway.hostname or ""
    known = mapping(address).get("address") if isinstance(address, dict) and address else None
    granted = ", ".join(found) or "does not resolve"
    if known is None:
        yield row(
            area="domain",
            name=host,
            state="by up" if address == {} and settings.gateway.makes_address else "unknown",
            needed="the gateway's address",
            granted=granted,
            why="create its A record from the output `dns`, after `pulumi up`",
        )
        return
    if known in found:
        yield row(area="domain", name=host, state="ready", needed=str(known), granted=granted)
        return
    # A private zone answers only inside the VPC.
    private = not found and ip_address(str(known)).is_private and not settings.gateway.is_public
    yield row(
        area="domain",
        name=host,
        state="unknown" if private else "missing",
        needed=str(known),
        granted=granted,
        missing=str(known),
        why="a private DNS zone answers in the VPC only" if private else "clients call this name",
        mend=f"create the record, where the domain is: {host}. A {known}",
    )


def _certificate(settings: Settings, found: Mapping[str, Any], authorization: Any) -> Iterator[Finding]:
    own, host = settings.gateway.makes_certificate, settings.gateway.hostname or ""
    title = f"certificate {certificate_name(settings)}"
    if not found:
        yield row(
            area="domain",
            name=title,
            state="by up" if own else "missing",
            needed="ACTIVE",
            granted="not there yet" if own else "none",
            missing="" if own else host,
            why="created by `pulumi up`; then create its CNAME record from the output `dns`"
            if own
            else f"gateway.tls.certificate names it, and Certificate Manager has none in {settings.region}",
            mend="" if own else "vllm-fleet:gateway: {tls: {certificate: NAME}}, or remove tls",
        )
        return
    names = texts(found.get("sanDnsnames", []) or mapping(found.get("managed", {})).get("domains", []))
    if not any(_covers(name, host) for name in names):
        yield row(
            area="domain",
            name=title,
            state="missing",
            needed=host,
            granted=", ".join(names) or "no name",
            missing=host,
            why="clients refuse a certificate without the name that they call",
            mend="vllm-fleet:gateway: {tls: {certificate: NAME}}, or remove tls",
        )
        return
    managed = mapping(found.get("managed", {}))
    state = managed.get("state", "unknown") if managed else "ACTIVE"
    if state == "ACTIVE":
        expires = _moment(found.get("expireTime"))
        over = expires <= datetime.now(UTC)
        yield row(
            area="domain",
            name=title,
            state="missing" if over else "ready",
            needed="ACTIVE",
            granted="expired" if over else "ACTIVE",
            missing=host if over else "",
            why=f"valid until {expires:%Y-%m-%d}" + ("" if managed else "; you renew it"),
            mend=f"gcloud certificate-manager certificates update {certificate_name(settings)} --location={settings.region} "
            f"--project={settings.project} --certificate-file=PEM --private-key-file=PEM"
            if over
            else "",
        )
        return
    details = [
        f"{one.get('domain')}: {one.get('state')}" + (f", {one['failureReason']}" if one.get("failureReason") else "")
        for one in objects(managed.get("authorizationAttemptInfo", []))
    ]
    yield row(
        area="domain",
        name=title,
        state="missing",
        needed="ACTIVE",
        granted=str(state),
        why="; ".join(["Google issues it once it finds the record in the public DNS", *details]),
        mend=_record(settings, authorization),
    )


def _record(settings: Settings, authorization: Any) -> str:
    """The CNAME record to create, if its authorization is known."""
    if isinstance(authorization, NoAnswerError) or not authorization:
        where = f"--location={settings.region} --project={settings.project}"
        return f"gcloud certificate-manager dns-authorizations list {where}"
    found = mapping(mapping(authorization).get("dnsResourceRecord"))
    if not all(isinstance(found.get(part), str) for part in ("name", "type", "data")):
        raise unreadable()
    return f"create the record, where the domain is: {found['name']} {found['type']} {found['data']}"


def _moment(value: Any) -> datetime:
    """A time of Google's APIs. Raises NoAnswerError."""
    try:
        return datetime.fromisoformat(value).astimezone(UTC)
    except (TypeError, ValueError):
        raise unreadable() from None


def _covers(pattern: str, host: str) -> bool:
    """Whether a certificate's name is this host name, or a wildcard over its last label."""
    return pattern == host or (pattern.startswith("*.") and host.partition(".")[2] == pattern[2:])
