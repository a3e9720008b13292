"""Checks of the gateway's picker, host name, certificate and address."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from facts.finding import Finding
from facts.names import MAX_POOL_NAME
from facts.pickers import LLM_D_POOL_ENDING
from settings.sections.section import key

if TYPE_CHECKING:
    from settings.stack import Settings

_NOT_PUBLIC: Final = re.compile(
    r"\.(local|localdomain|localhost|internal|lan|home|corp|intranet|private|test|invalid|home\.arpa)$"
)
"""Domains that no public DNS has. Source: RFC 6761 (localhost, test, invalid), RFC 6762 with its appendix G, RFC 8375 (home.arpa)."""


def gateway_problems(settings: Settings) -> Iterator[Finding]:
    """What a host name needs, and what an external gateway shows without one."""
    gateway = settings.gateway
    named = {"hostname": gateway.hostname, "address": gateway.address, "tls.certificate": gateway.tls.certificate}
    for path, found in named.items():
        if found is not None and not gateway.enabled:
            yield Finding(
                id="name-without-gateway",
                subject=key(f"gateway.{path}"),
                found=found,
                allowed="left out without gateway.enabled",
                why="only a gateway has a name and an address that stay",
                write="gateway: {enabled: true, ...}, or remove it",
            )
    if not gateway.enabled:
        return
    if gateway.has_llm_d:
        yield from _llm_d(settings)
    if gateway.makes_certificate and _NOT_PUBLIC.search(f".{gateway.hostname}"):
        yield Finding(
            id="hostname-not-public",
            subject=key("gateway.hostname"),
            found=gateway.hostname,
            allowed="a name of a public domain, or with gateway.tls.certificate any name",
            why="Google issues a certificate once a public DNS record proves the domain, which this one cannot have",
            write="gateway: {tls: {certificate: NAME}}, a Certificate Manager certificate of the region that you uploaded",
        )
    if gateway.tls.certificate is not None and gateway.hostname is None:
        yield Finding(
            id="certificate-without-hostname",
            subject=key("gateway.tls.certificate"),
            found=gateway.tls.certificate,
            allowed="a certificate together with gateway.hostname",
            why="without a host name the gateway has a plain HTTP listener only",
            write="gateway: {hostname: NAME-OF-THE-CERTIFICATE, ...}",
        )
    if gateway.makes_address and not gateway.is_public and not settings.owns_platform:
        yield Finding(
            id="address-without-subnet",
            subject=key("gateway.address"),
            found=None,
            allowed="the name of an internal static address of the cluster's subnet",
            why="an internal address belongs to a subnet, and this stack does not know the other's",
            write="gateway: {address: NAME}, after `gcloud compute addresses create NAME --region=REGION --subnet=SUBNET "
            "--purpose=SHARED_LOADBALANCER_VIP`",
        )
    if gateway.is_public and gateway.hostname is None:
        yield Finding(
            id="public-in-clear-text",
            subject=key("gateway.hostname"),
            found=None,
            allowed="a host name, unless TLS ends in front of the gateway",
            why="prompts, answers and the API key cross the internet unencrypted",
            write="gateway: {hostname: llm.YOUR-DOMAIN}",
            severity="warning",
        )
    if gateway.makes_certificate and settings.benchmark.enabled and settings.benchmark.run_on_update:
        yield Finding(
            id="benchmark-before-certificate",
            subject=key("benchmark.runOnUpdate"),
            found=True,
            allowed="false, until the DNS records of the output `dns` exist and the certificate is ACTIVE",
            why="the benchmark's clients call the host name: on the first update it does not resolve yet, and they wait in vain",
            write="benchmark: {runOnUpdate: false}, then `fleet bench run`",
            severity="warning",
        )


def _llm_d(settings: Settings) -> Iterator[Finding]:
    """The length of the name of llm-d's pool."""
    gateway = settings.gateway
    # A canary's longer name has a refusal of its own.
    if len(gateway.pool_name) > MAX_POOL_NAME:
        yield Finding(
            id="pool-name-too-long",
            subject=key("gateway.pool"),
            found=gateway.pool,
            allowed=f"up to {MAX_POOL_NAME - len(LLM_D_POOL_ENDING)} characters with gateway.epp.release {gateway.epp.release}",
            why=f"the pool is called {gateway.pool_name}, and names of pickers are cut at {MAX_POOL_NAME} characters",
            write="a shorter pool",
        )
