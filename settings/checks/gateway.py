"""Checks of the gateway's host name, certificate, address and pool."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from facts.finding import Finding
from facts.names import CANARY_ENDING, MAX_POOL_NAME
from settings.row import Row

if TYPE_CHECKING:
    from settings.stack import Settings

_NOT_PUBLIC: Final = re.compile(
    r"\.(local|localdomain|localhost|internal|lan|home|corp|intranet|private|test|invalid|home\.arpa)$"
)
"""Domains that no public DNS has. Source: RFC 6761 (localhost, test, invalid), RFC 6762 with its appendix G, RFC 8375 (home.arpa)."""
_HOSTNAME = Row(
    "hostname-not-public",
    "Google issues a certificate once a public DNS record proves the domain, which this one cannot have",
    "gateway: {tls: {certificate: NAME}}, a Certificate Manager certificate of the region that you uploaded",
)
_ADDRESS = Row(
    "address-without-subnet",
    "an internal address belongs to a subnet, and this stack does not know the other's",
    "gateway: {address: NAME}, after `gcloud compute addresses create NAME --region=REGION --subnet=SUBNET "
    "--purpose=SHARED_LOADBALANCER_VIP`",
)
_CLEAR_TEXT = Row(
    "public-in-clear-text",
    "prompts, answers and the API key cross the internet unencrypted",
    "gateway: {hostname: llm.YOUR-DOMAIN}",
    "warning",
)
_TOO_EARLY = Row(
    "benchmark-before-certificate",
    "the benchmark's clients call the host name: on the first update it does not resolve yet, and they wait in vain",
    "benchmark: {runOnUpdate: false}, then `fleet bench run`",
    "warning",
)
_LONG_POOL = Row(
    "pool-name-too-long",
    "names of pickers are cut there, and a canary's pool and llm-d's have an ending",
    "a shorter pool; renaming one replaces the route's backend",
)


def gateway_problems(settings: Settings) -> Iterator[Finding]:
    """What a host name needs, what an external gateway shows without one, and the length of the pool's name."""
    gateway, benchmark = settings.gateway, settings.benchmark
    if not gateway.enabled:
        return
    has_canary = settings.canary_pool is not None
    room = MAX_POOL_NAME - (len(CANARY_ENDING) if has_canary else 0)
    if (gateway.has_llm_d or has_canary) and len(gateway.pool_name) > room:
        allowed = f"up to {room - len(gateway.pool_name) + len(gateway.pool)} characters here"
        yield _LONG_POOL("gateway.pool", gateway.pool, allowed)
    if gateway.makes_certificate and _NOT_PUBLIC.search(f".{gateway.hostname}"):
        allowed = "a name of a public domain, or with gateway.tls.certificate any name"
        yield _HOSTNAME("gateway.hostname", gateway.hostname, allowed)
    if gateway.makes_address and not gateway.is_public and not settings.owns_platform:
        yield _ADDRESS("gateway.address", None, "the name of an internal static address of the cluster's subnet")
    if gateway.is_public and gateway.hostname is None:
        yield _CLEAR_TEXT("gateway.hostname", None, "a host name, unless TLS ends in front of the gateway")
    if gateway.makes_certificate and benchmark.enabled and benchmark.run_on_update:
        allowed = "false, until the DNS records of the output `dns` exist and the certificate is ACTIVE"
        yield _TOO_EARLY("benchmark.runOnUpdate", True, allowed)
