"""Whether an existing VPC has what a stack names and needs: subnet, ranges, NAT, proxy-only subnet, and rights in a host project."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from ipaddress import IPv4Network
from typing import TYPE_CHECKING, Any, Final

from facts.finding import Finding
from facts.ranges import smallest_ranges
from fleet.doctor.rows import row
from fleet.doctor.shapes import mapping, objects, texts, unreadable, word
from infra.naming import name_of
from settings.derived.google_cloud_needs import host_permissions

if TYPE_CHECKING:
    from settings.sections.network import ExistingVpc
    from settings.stack import Settings

PROXY_ONLY: Final = "REGIONAL_MANAGED_PROXY"
AGENT: Final = "roles/container.hostServiceAgentUser"
"""On the host project, for GKE's service agent of the stack's project. Source: GKE docs, "Setting up clusters with Shared VPC"; the same in
GoogleCloudPlatform/cloud-foundation-fabric, shared_vpc_service_config, with `NETWORK_USER` for both agents."""
NETWORK_USER: Final = "roles/compute.networkUser"
"""On the subnet or the host project, for GKE's service agent and Google APIs' service agent."""
_ALL_PRIMARY: Final = "ALL_SUBNETWORKS_ALL_PRIMARY_IP_RANGES"
"""Source: Compute API v1, Router, `nats[].sourceSubnetworkIpRangesToNat`; for one subnet: `nats[].subnetworks[].sourceIpRangesToNat`."""

Read = Callable[[Any], Iterator[Finding]]


def existing_of(settings: Settings) -> ExistingVpc | None:
    """The existing VPC on which the stack makes its cluster."""
    return settings.network.existing if settings.owns_platform else None


def host_of(settings: Settings) -> str | None:
    """The host project of a Shared VPC."""
    existing = existing_of(settings)
    return None if existing is None or existing.project == settings.project else existing.project


def readers(settings: Settings) -> Iterator[tuple[str, str, Read, str]]:
    """For each question about the network: its name, the row's name without an answer, what reads the answer, and how to look."""
    existing = existing_of(settings)
    if existing is None:
        return
    host = existing.project or settings.project
    where = f"--project={host}"
    yield (
        "subnets",
        f"subnets of {existing.vpc}",
        lambda said: _subnets(settings, existing, objects(said)),
        f"gcloud compute networks subnets list --network={existing.vpc} {where}",
    )
    yield (
        "routers",
        f"Cloud NAT of {existing.subnet}",
        lambda said: _nat(settings, existing, objects(said)),
        f"gcloud compute routers list --regions={settings.region} {where}",
    )
    if host_of(settings) is None:
        return
    yield (
        "host project",
        f"host project {host}",
        lambda said: _attached(settings, host, said),
        f"gcloud compute shared-vpc get-host-project {settings.project}",
    )
    yield (
        "network agents",
        f"Google's agents in {host}",
        lambda said: _agents(settings, existing, host, said),
        f"gcloud projects get-iam-policy {host}",
    )
    yield (
        "host permissions",
        f"permissions on {host}",
        lambda said: _host_permissions(settings, existing, host, said),
        f"gcloud projects get-iam-policy {host}",
    )


def _subnets(settings: Settings, existing: ExistingVpc, subnets: Sequence[Mapping[str, Any]]) -> Iterator[Finding]:
    of_vpc = [one for one in subnets if word(one.get("network")) == existing.vpc]
    of_region = [one for one in of_vpc if word(one.get("region")) == settings.region]
    project = existing.project or settings.project
    subnet = next((one for one in of_region if one.get("name") == existing.subnet), None)
    if subnet is None:
        others = sorted(word(one.get("name")) for one in of_region if one.get("purpose") in (None, "PRIVATE"))
        elsewhere = sorted({word(one.get("region")) for one in of_vpc if one.get("name") == existing.subnet})
        why = f"no subnet {existing.subnet} in VPC {existing.vpc} of {project}, region {settings.region}"
        why += f"; it is in {', '.join(elsewhere)}" if elsewhere else ""
        yield row(
            area="network",
            name=f"subnet {existing.subnet}",
            state="missing",
            needed=settings.region,
            granted=", ".join(others) or "none",
            missing=existing.subnet,
            why=why,
            mend=f"vllm-fleet:network: {{existing: {{subnet: {others[0] if others else 'NAME'}}}}}",
        )
    else:
        yield from _ranges(settings, existing, subnet)
        yield _private_access(existing, project, settings.region, subnet)
    if settings.proxy_only_subnet:
        yield _proxy_only(settings, existing, of_region)


def _ranges(settings: Settings, existing: ExistingVpc, subnet: Mapping[str, Any]) -> Iterator[Finding]:
    """Whether each range exists, is large enough, and is what the stack file says."""
    network = settings.network
    sizes = smallest_ranges(gpu_nodes=settings.nodes)
    secondary = {
        word(one.get("rangeName")): _block(one.get("ipCidrRange"))
        for one in objects(subnet.get("secondaryIpRanges", []))
    }
    wanted = (
        ("nodeCidr", f"nodes of {existing.subnet}", "", network.node_cidr, sizes.nodes_prefix),
        ("podCidr", f"pods of {existing.subnet}", existing.pod_range, network.pod_cidr, sizes.pods_prefix),
        (
            "serviceCidr",
            f"Services of {existing.subnet}",
            existing.service_range,
            network.service_cidr,
            sizes.services_prefix,
        ),
    )
    for key, name, range_name, written, longest in wanted:
        needed = f"/{longest} or larger for {sizes.nodes} nodes"
        real = secondary.get(range_name) if range_name else _block(subnet.get("ipCidrRange"))
        if real is None:
            yield row(
                area="network",
                name=name,
                state="missing",
                needed=needed,
                granted=", ".join(sorted(secondary)) or "none",
                missing=range_name,
                why=f"the subnet has no secondary range {range_name}",
                mend=f"gcloud compute networks subnets update {existing.subnet} --region={settings.region} "
                f"--project={existing.project or settings.project} --add-secondary-ranges={range_name}={written}",
            )
        elif real.prefixlen > longest:
            yield row(
                area="network",
                name=name,
                state="missing",
                needed=needed,
                granted=str(real),
                why="too small; other clusters may use a part of it, too",
                mend="a larger range, or fewer replicas",
            )
        elif real != IPv4Network(written, strict=False):
            yield row(
                area="network",
                name=name,
                state="missing",
                needed=written,
                granted=str(real),
                why=f"the stack file says {written}, of which network policies are made",
                mend=f"vllm-fleet:network: {{{key}: {real}}}",
            )
        else:
            yield row(area="network", name=name, state="ready", needed=needed, granted=str(real))


def _private_access(existing: ExistingVpc, project: str, region: str, subnet: Mapping[str, Any]) -> Finding:
    on = subnet.get("privateIpGoogleAccess") is True  # protobuf's JSON omits false
    return row(
        area="network",
        name=f"Private Google Access of {existing.subnet}",
        state="ready" if on else "missing",
        needed="on",
        granted="on" if on else "off",
        why="" if on else "nodes have no public address: images, logs and metrics would go through NAT, or nowhere",
        mend=""
        if on
        else f"gcloud compute networks subnets update {existing.subnet} --region={region} --project={project} "
        "--enable-private-ip-google-access",
    )


def _proxy_only(settings: Settings, existing: ExistingVpc, subnets: Sequence[Mapping[str, Any]]) -> Finding:
    """The named subnet is there and active, or none is and the stack's range is free."""
    written = IPv4Network(settings.network.proxy_only.cidr, strict=False)
    active = {
        word(one.get("name")): _block(one.get("ipCidrRange"))
        for one in subnets
        if one.get("purpose") == PROXY_ONLY and one.get("role") == "ACTIVE"
    }
    ours = name_of(settings.stack, "vllm-proxy-only")
    name = existing.proxy_only_subnet or (ours if ours in active else None)
    label, needed = f"proxy-only subnet in {settings.region}", f"active, {written}"
    granted = ", ".join(f"{one}: {block}" for one, block in sorted(active.items())) or "none"
    if name is not None:
        state = active.get(name)
        right = state == written
        why = "" if right else "it is not there or not active" if state is None else f"the stack file says {written}"
        mend = (
            f"vllm-fleet:network: {{proxyOnly: {{cidr: {state}}}}}"
            if state is not None
            else "remove network.existing.proxyOnlySubnet: the stack then creates one"
        )
        return row(
            area="network",
            name=label,
            state="ready" if right else "missing",
            needed=needed,
            granted=granted,
            missing="" if right else name,
            why=why,
            mend="" if right else mend,
        )
    if active:
        other, block = sorted(active.items())[0]
        return row(
            area="network",
            name=label,
            state="missing",
            needed=needed,
            granted=granted,
            why="a VPC has one active proxy-only subnet in a region, so the stack's cannot be created",
            mend=f"vllm-fleet:network: {{existing: {{proxyOnlySubnet: {other}}}, proxyOnly: {{cidr: {block}}}}}",
        )
    taken = [word(one.get("name")) for one in subnets if any(block.overlaps(written) for block in _blocks(one))]
    return row(
        area="network",
        name=label,
        state="missing" if taken else "by up",
        needed=needed,
        granted=granted,
        why=f"{written} overlaps subnet {', '.join(taken)}"
        if taken
        else "created by `pulumi up`, with its firewall rule",
        mend="another network.proxyOnly.cidr" if taken else "",
    )


def _nat(settings: Settings, existing: ExistingVpc, routers: Sequence[Mapping[str, Any]]) -> Iterator[Finding]:
    """Nodes have no public address, and the weights come from the internet."""
    serving = [
        (word(router.get("name")), nat, ranges)
        for router in routers
        if word(router.get("network")) == existing.vpc and word(router.get("region")) == settings.region
        for nat in objects(router.get("nats", []))
        if (ranges := _translated(nat, existing))
    ]
    absent = {"nodes", "pods"}.difference(*(ranges for _, _, ranges in serving))
    where = f"--region={settings.region} --project={existing.project or settings.project}"
    why = mend = ""
    if absent and serving:
        router, nat, _ = serving[0]
        gap = " and ".join(
            "the subnet's primary range, which nodes use"
            if name == "nodes"
            else f"{existing.pod_range}, the secondary range of pods"
            for name in sorted(absent)
        )
        why = f"no NAT covers {gap}"
        mend = (
            f"gcloud compute routers nats update {word(nat.get('name'))} --router={router} {where} "
            f"{_widened(nat, existing, absent)}"
        )
    elif absent:
        why = "private nodes reach Hugging Face through NAT alone; an appliance of yours is not seen here"
        mend = (
            f"gcloud compute routers nats create NAME --router=ROUTER {where} "
            f"--nat-custom-subnet-ip-ranges={existing.subnet}:ALL --auto-allocate-nat-external-ips"
        )
    yield row(
        area="network",
        name=f"Cloud NAT of {existing.subnet}",
        state="missing" if absent else "ready",
        needed="a NAT for the subnet's nodes and pods",
        granted=", ".join(f"{word(nat.get('name'))} for {' and '.join(sorted(ranges))}" for _, nat, ranges in serving)
        or "none",
        missing=" and ".join(sorted(absent)),
        why=why,
        mend=mend,
    )


def _translated(nat: Mapping[str, Any], existing: ExistingVpc) -> set[str]:
    """Who of the subnet's "nodes" and "pods" reaches the internet through this NAT."""
    if nat.get("type") == "PRIVATE":  # between networks only
        return set()
    option = nat.get("sourceSubnetworkIpRangesToNat")
    if option == "ALL_SUBNETWORKS_ALL_IP_RANGES":
        return {"nodes", "pods"}
    if option == _ALL_PRIMARY:
        return {"nodes"}
    by_range = {
        f"{existing.subnet}:ALL": {"nodes", "pods"},
        existing.subnet: {"nodes"},
        f"{existing.subnet}:{existing.pod_range}": {"pods"},
    }
    return set().union(*(by_range.get(covered, set()) for covered in _listed(nat)))


def _listed(nat: Mapping[str, Any]) -> list[str]:
    """Ranges of a NAT's list of subnets as gcloud's --nat-custom-subnet-ip-ranges writes them."""
    ranges = []
    for subnet in objects(nat.get("subnetworks", [])):
        name, options = word(subnet.get("name")), texts(subnet.get("sourceIpRangesToNat", []))
        ranges += [f"{name}:ALL"] if "ALL_IP_RANGES" in options else []
        ranges += [name] if "PRIMARY_IP_RANGE" in options else []
        if "LIST_OF_SECONDARY_IP_RANGES" in options:
            ranges += [f"{name}:{secondary}" for secondary in texts(subnet.get("secondaryIpRangeNames", []))]
    return ranges


def _widened(nat: Mapping[str, Any], existing: ExistingVpc, absent: set[str]) -> str:
    """The option of `gcloud compute routers nats update` that adds what is absent. The list replaces the NAT's: it keeps all others."""
    if nat.get("sourceSubnetworkIpRangesToNat") == _ALL_PRIMARY:
        return "--nat-all-subnet-ip-ranges"
    added = {"nodes": existing.subnet, "pods": f"{existing.subnet}:{existing.pod_range}"}
    return f"--nat-custom-subnet-ip-ranges={','.join([*_listed(nat), *(added[name] for name in sorted(absent))])}"


def _attached(settings: Settings, host: str, said: Any) -> Iterator[Finding]:
    real = said.get("name") if isinstance(said, dict) else None
    if said not in (None, {}) and not isinstance(real, str):
        raise unreadable()
    yield row(
        area="network",
        name=f"host project of {settings.project}",
        state="ready" if real == host else "missing",
        needed=host,
        granted=real or "none",
        why="" if real == host else "a project uses the Shared VPC of the host project that it is attached to",
        mend=""
        if real == host
        else f"gcloud compute shared-vpc associated-projects add {settings.project} --host-project={host}",
    )


def _agents(settings: Settings, existing: ExistingVpc, host: str, said: Any) -> Iterator[Finding]:
    answer = mapping(said)
    number = mapping(answer.get("project")).get("projectNumber")
    if not isinstance(number, str) or not number.isdigit():
        raise unreadable()
    of_host, of_subnet = _grants(answer.get("host policy")), _grants(answer.get("subnet policy"))
    gke = f"serviceAccount:service-{number}@container-engine-robot.iam.gserviceaccount.com"
    apis = f"serviceAccount:{number}@cloudservices.gserviceaccount.com"
    on_subnet = f"gcloud compute networks subnets add-iam-policy-binding {existing.subnet} --region={settings.region} --project={host}"
    users = of_host.get(NETWORK_USER, set()) | of_subnet.get(NETWORK_USER, set())
    for member, role, holders, mend in (
        (gke, AGENT, of_host.get(AGENT, set()), f"gcloud projects add-iam-policy-binding {host}"),
        (gke, NETWORK_USER, users, on_subnet),
        (apis, NETWORK_USER, users, on_subnet),
    ):
        has = member in holders
        yield row(
            area="network",
            name=f"{role} for {member.partition(':')[2]}",
            state="ready" if has else "missing",
            needed=f"on {host}" if role == AGENT else f"on {host} or {existing.subnet}",
            granted="granted" if has else "not granted by name",
            why=""
            if has
            else "without it GKE cannot use the subnet; roles through groups, folders or organizations are not seen here",
            mend="" if has else f"{mend} --member={member} --role={role}",
        )


def _grants(policy: Any) -> dict[str, set[str]]:
    """Members by role, without conditional grants."""
    grants: dict[str, set[str]] = {}
    for binding in objects(mapping(policy).get("bindings", [])):
        members = texts(binding.get("members", []))
        if not binding.get("condition"):
            grants.setdefault(str(binding.get("role")), set()).update(members)
    return grants


def _host_permissions(settings: Settings, existing: ExistingVpc, host: str, said: Any) -> Iterator[Finding]:
    needed = host_permissions(settings)
    granted = mapping(said).get("permissions", [])
    if not isinstance(granted, list):
        raise unreadable()
    lacking = sorted(needed.keys() - set(map(str, granted)))
    roles = sorted({needed[permission] for permission in lacking})
    yield row(
        area="network",
        name=f"permissions on {host}",
        state="missing" if lacking else "ready",
        needed=len(needed),
        granted=len(needed) - len(lacking),
        missing=len(lacking) or "",
        why=f"{', '.join(lacking)}, checked with the login that `pulumi up` uses" if lacking else "",
        mend=" && ".join(
            f"gcloud projects add-iam-policy-binding {host} --member=user:YOUR-ADDRESS --role={role}" for role in roles
        )
        if lacking != ["compute.subnetworks.use"]
        else f"gcloud compute networks subnets add-iam-policy-binding {existing.subnet} --region={settings.region} "
        f"--project={host} --member=user:YOUR-ADDRESS --role={NETWORK_USER}",
    )


def _block(text: Any) -> IPv4Network:
    try:
        return IPv4Network(text if isinstance(text, str) else "")
    except ValueError:
        raise unreadable() from None


def _blocks(subnet: Mapping[str, Any]) -> list[IPv4Network]:
    secondary = objects(subnet.get("secondaryIpRanges", []))
    return [_block(one.get("ipCidrRange")) for one in (subnet, *secondary)]
