"""Whether an existing VPC has what GKE does not ask for, and pods miss: five rows."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Network
from typing import TYPE_CHECKING, Any, Final

from facts.finding import Finding
from fleet.doctor.google import COMPUTE
from fleet.doctor.rows import Question, row
from infra.naming import name_of

if TYPE_CHECKING:
    from fleet.doctor.google import Google
    from settings.sections.network import ExistingVpc
    from settings.stack import Settings

PROXY_ONLY: Final = "REGIONAL_MANAGED_PROXY"


def questions(settings: Settings) -> Iterator[Question]:
    """About the existing VPC on which the stack makes its cluster."""
    existing = settings.network.existing if settings.owns_platform else None
    if existing is None:
        return
    host = existing.project or settings.project
    yield Question(
        area="network",
        name=f"subnets of {existing.vpc}",
        ask=lambda google: _subnets(settings, existing, host, google),
        look=f"gcloud compute networks subnets list --network={existing.vpc} --project={host}",
    )
    yield Question(
        area="network",
        name=f"Cloud NAT of {existing.vpc}",
        ask=lambda google: _nat(settings, existing, host, google),
        look=f"gcloud compute routers list --regions={settings.region} --project={host}",
    )


def _subnets(settings: Settings, existing: ExistingVpc, host: str, google: Google) -> Iterator[Finding]:
    region = f"{COMPUTE}/projects/{host}/regions/{settings.region}"
    listed = google.get(f"{region}/subnetworks", maxResults=500).get("items", [])
    subnets = {one["name"]: one for one in listed if _last(one["network"]) == existing.vpc}
    subnet = subnets.get(existing.subnet)
    yield row(
        area="network",
        name=f"subnet {existing.subnet}",
        state="missing" if subnet is None else "ready",
        needed=f"in VPC {existing.vpc} of {host}, region {settings.region}",
        granted="there" if subnet is not None else ", ".join(sorted(subnets)) or "none",
        mend="vllm-fleet:network: {existing: {subnet: NAME}}",
    )
    if subnet is not None:
        yield _ranges(settings, existing, subnet)
        on = subnet.get("privateIpGoogleAccess") is True  # protobuf's JSON omits false
        yield row(
            area="network",
            name=f"Private Google Access of {existing.subnet}",
            state="ready" if on else "missing",
            needed="on",
            granted="on" if on else "off",
            why="nodes have no public address: images, logs and metrics would go through NAT, or nowhere",
            mend=f"gcloud compute networks subnets update {existing.subnet} --region={settings.region} --project={host} "
            "--enable-private-ip-google-access",
        )
    if settings.proxy_only_subnet:
        yield _proxy_only(settings, existing, list(subnets.values()))


def _ranges(settings: Settings, existing: ExistingVpc, subnet: Any) -> Finding:
    """The ranges are those of the stack file, of which network policies are made; `fleet check` judges their size."""
    network = settings.network
    real = {one["rangeName"]: one["ipCidrRange"] for one in subnet.get("secondaryIpRanges", [])}
    found = {
        "nodeCidr": subnet["ipCidrRange"],
        "podCidr": real.get(existing.pod_range, "none"),
        "serviceCidr": real.get(existing.service_range, "none"),
    }
    wanted = {"nodeCidr": network.node_cidr, "podCidr": network.pod_cidr, "serviceCidr": network.service_cidr}
    wrong = [key for key in wanted if found[key] == "none" or _block(found[key]) != _block(wanted[key])]
    return row(
        area="network",
        name=f"ranges of {existing.subnet}",
        state="missing" if wrong else "ready",
        needed=", ".join(f"{key} {block}" for key, block in wanted.items()),
        granted=", ".join(f"{key} {block}" for key, block in found.items()),
        why="network policies are made of the ranges in the stack file: what differs cuts pods off",
        mend=f"vllm-fleet:network: {{{', '.join(f'{key}: {found[key]}' for key in wrong)}}}, and a range where the subnet has none",
    )


def _proxy_only(settings: Settings, existing: ExistingVpc, subnets: list[Any]) -> Finding:
    """The named subnet is there and active, or none is: without one the gateway serves nothing, and says nothing."""
    written, ours = settings.network.proxy_only.cidr, name_of(settings.stack, "vllm-proxy-only")
    active = {
        one["name"]: one["ipCidrRange"]
        for one in subnets
        if one.get("purpose") == PROXY_ONLY and one.get("role") == "ACTIVE"
    }
    name = existing.proxy_only_subnet or (ours if ours in active else None)
    there = name in active and _block(active[name]) == _block(written)
    return row(
        area="network",
        name=f"proxy-only subnet in {settings.region}",
        state="ready" if there else "missing" if name or active else "by up",
        needed=f"active, {written}",
        granted=", ".join(f"{one}: {block}" for one, block in sorted(active.items())) or "none",
        why="a VPC has one active proxy-only subnet in a region; `pulumi up` creates it where there is none",
        mend=""
        if not (name or active)
        else "vllm-fleet:network: {existing: {proxyOnlySubnet: NAME}, proxyOnly: {cidr: RANGE}}",
    )


def _nat(settings: Settings, existing: ExistingVpc, host: str, google: Google) -> Iterator[Finding]:
    """Nodes have no public address, and the weights come from the internet: without NAT they never arrive, and nothing says so."""
    routers = google.get(f"{COMPUTE}/projects/{host}/regions/{settings.region}/routers").get("items", [])
    nats = [
        nat["name"]
        for router in routers
        if _last(router["network"]) == existing.vpc
        for nat in router.get("nats", [])
        if nat.get("type") != "PRIVATE"  # between networks only
    ]
    yield row(
        area="network",
        name=f"Cloud NAT of {existing.vpc}",
        state="ready" if nats else "missing",
        needed=f"one in {settings.region}, for the subnet's primary range and the pods' range",
        granted=", ".join(nats) or "none",
        why="private nodes reach Hugging Face through NAT alone; which ranges a NAT has, and an appliance of yours, are not seen here",
        mend=f"gcloud compute routers nats create NAME --router=ROUTER --region={settings.region} --project={host} "
        f"--nat-custom-subnet-ip-ranges={existing.subnet}:ALL --auto-allocate-nat-external-ips",
    )


def _last(url: str) -> str:
    return url.rpartition("/")[2]


def _block(text: str) -> IPv4Network:
    return IPv4Network(text, strict=False)
