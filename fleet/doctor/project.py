"""Whether a project has what a stack needs: APIs, permissions, the machine in its zones, Spot, a reservation, the image's digest."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from facts.finding import Finding
from fleet.doctor import advice
from fleet.doctor.google import COMPUTE
from fleet.doctor.rows import Question, row
from infra.naming import name_of
from settings.derived.google_cloud_needs import required_apis, required_permissions
from settings.sections.capacity import Calendar, ComputeClassMode, Reservation, Spot

if TYPE_CHECKING:
    from fleet.doctor.google import Google
    from settings.stack import Settings

SERVICE_USAGE: Final = "https://serviceusage.googleapis.com/v1"
RESOURCE_MANAGER: Final = "https://cloudresourcemanager.googleapis.com/v1"
REGISTRY: Final = "https://{region}-docker.pkg.dev"
MANIFESTS: Final = ", ".join(
    (
        "application/vnd.oci.image.index.v1+json",
        "application/vnd.docker.distribution.manifest.list.v2+json",
        "application/vnd.oci.image.manifest.v1+json",
        "application/vnd.docker.distribution.manifest.v2+json",
    )
)
"""Media types of an image: of all its platforms, then of one. Without them a registry may return the digest of one platform, or 404.
Source: OCI image specification 1.1 and CNCF Distribution 3.0, registry/handlers/manifests.go."""


def questions(settings: Settings) -> Iterator[Question]:
    """In the order of a first `pulumi up`."""
    of_project, zones = f"--project={settings.project}", ",".join(settings.zones)
    yield Question(
        area="api",
        name="APIs",
        ask=lambda google: _apis(settings, google),
        look=f"gcloud services list --enabled {of_project}",
    )
    yield Question(
        area="permission",
        name="permissions on the project",
        ask=lambda google: _permissions(settings, google),
        look=f"gcloud projects get-iam-policy {settings.project}",
    )
    yield Question(
        area="zone",
        name=settings.machine.type,
        ask=lambda google: _zones(settings, google),
        look=f"gcloud compute machine-types list --filter=name={settings.machine.type} {of_project}",
    )
    if uses_spot(settings):
        yield Question(
            area="spot",
            name=f"{settings.machine.type} on Spot",
            ask=lambda google: _spot(settings, google),
            look=f"gcloud beta compute advice capacity --region={settings.region} --zones={zones} --provisioning-model=SPOT "
            f"--size={settings.nodes} --instance-selection-machine-types={settings.machine.type} "
            f"--target-distribution-shape=any-single-zone {of_project}",
        )
    if (reserved := reservation_of(settings)) is not None:
        yield Question(
            area="reservation",
            name=reserved[0],
            ask=lambda google: _reservation(settings, google),
            look=f"gcloud compute reservations list --project={reserved[1]}",
        )
    if settings.owns_platform and settings.serving.image.digest is None:
        yield Question(
            area="images",
            name=f"{settings.serving.image.repository}:{settings.serving.image.tag}",
            ask=lambda google: _digest(settings, google),
            look=f"gcloud artifacts repositories list --location={settings.region} {of_project}",
        )


def _apis(settings: Settings, google: Google) -> Iterator[Finding]:
    needed = required_apis(settings)
    parent = f"projects/{settings.project}"
    # At most 30 names. Source: Service Usage API v1, services.batchGet.
    said = google.get(
        f"{SERVICE_USAGE}/{parent}/services:batchGet", names=[f"{parent}/services/{api}" for api in needed]
    )
    on = {one["config"]["name"] for one in said["services"] if one["state"] == "ENABLED"}
    off = [api for api in needed if api not in on]
    yield row(
        area="api",
        name="APIs",
        state="by up" if off else "ready",
        needed=len(needed),
        granted=len(needed) - len(off),
        why=f"`pulumi up` enables {', '.join(off)}" if off else "",
        # Limits of a disabled API cannot be read.
        mend=f"gcloud services enable {' '.join(off)} --project={settings.project}",
    )


def _permissions(settings: Settings, google: Google) -> Iterator[Finding]:
    needed = required_permissions(settings)
    url = f"{RESOURCE_MANAGER}/projects/{settings.project}:testIamPermissions"
    granted = google.post(url, {"permissions": list(needed)}).get("permissions", [])
    lacking = [permission for permission in needed if permission not in granted]
    bind = f"gcloud projects add-iam-policy-binding {settings.project} --member=user:YOUR-ADDRESS"
    yield row(
        area="permission",
        name="permissions on the project",
        state="missing" if lacking else "ready",
        needed=len(needed),
        granted=len(needed) - len(lacking),
        why=f"{', '.join(lacking)} missing, checked with the login that `pulumi up` uses" if lacking else "",
        mend=" && ".join(f"{bind} --role={role}" for role in sorted({needed[one] for one in lacking})),
    )


def _zones(settings: Settings, google: Google) -> Iterator[Finding]:
    """GKE creates pods of a machine that a zone does not offer, and they wait for ever."""
    machine, of_project = settings.machine.type, f"{COMPUTE}/projects/{settings.project}"
    without = [
        zone for zone in settings.zones if google.find(f"{of_project}/zones/{zone}/machineTypes/{machine}") is None
    ]
    yield row(
        area="zone",
        name=machine,
        state="missing" if without else "ready",
        needed=", ".join(settings.zones),
        granted=", ".join(zone for zone in settings.zones if zone not in without) or "none",
        why="offered; whether one is free, only `pulumi up` shows" if not without else "pods would wait there for ever",
        mend=f"pulumi config set --path 'vllm-fleet:zones[0]' ZONE --stack {settings.stack}",
    )


def uses_spot(settings: Settings) -> bool:
    """Whether nodes may be Spot machines."""
    capacity = settings.capacity
    return isinstance(capacity, Spot) or (isinstance(capacity, ComputeClassMode) and capacity.spot)


def _spot(settings: Settings, google: Google) -> Iterator[Finding]:
    """Google's advice for each zone, as if it had to hold all nodes."""
    for zone in settings.zones:
        said = advice.ask(google, settings.project, settings.machine.type, zone, max(settings.nodes, 1))
        is_likely = said.obtainability is not None and said.obtainability >= advice.LIKELY
        yield row(
            area="spot",
            name=f"{settings.machine.type} on Spot, {zone}",
            state="ready" if is_likely else "of today",
            needed=settings.nodes,
            granted=said.level,
            why="; ".join(said.words) or "Google has no figures of this machine there",
            mend="another zone or capacity (docs/machines.md), or another day",
        )


def reservation_of(settings: Settings) -> tuple[str, str] | None:
    """Name and project of the stack's reservation; None if it has none or none yet."""
    match settings.capacity:
        case Reservation(name=name, project=project):
            return name, project or settings.project
        case ComputeClassMode(reservation=reserved) if reserved is not None:
            return reserved.name, reserved.project or settings.project
        case Calendar(reservation=name):
            return name, settings.project
    return None


def _reservation(settings: Settings, google: Google) -> Iterator[Finding]:
    """It is paid from its start, and pods that it does not fit wait for ever."""
    name, owner = reservation_of(settings) or ("", "")
    of_owner = f"{COMPUTE}/projects/{owner}"
    found = [google.find(f"{of_owner}/zones/{zone}/reservations/{name}") for zone in settings.zones]
    held = [_held(one) for one in found if one is not None]
    wanted = {"status": "READY", "specificReservationRequired": True, "machineType": settings.machine.type}
    fits = [one for one in held if all(one[key] == value for key, value in wanted.items())]
    free = sum(one["count"] - one["inUseCount"] for one in fits)
    enough = sum(one["count"] for one in fits) >= settings.nodes
    yield row(
        area="reservation",
        name=name,
        # A running stack uses its own machines.
        state="ready" if free >= settings.nodes else "unknown" if enough else "missing",
        needed=settings.nodes,
        granted=free,
        why="; ".join(", ".join(f"{key} {value}" for key, value in one.items()) for one in held)
        or f"not found in {', '.join(settings.zones)}; a window of calendar mode appears once it is approved",
        mend=f"a READY and specific reservation of {settings.machine.type} with machines that no other stack uses: "
        f"gcloud compute reservations list --project={owner}",
    )


def _held(found: Any) -> dict[str, Any]:
    specific = found["specificReservation"]
    return {
        "status": found["status"],
        "specificReservationRequired": found.get("specificReservationRequired", False),
        "machineType": specific["instanceProperties"]["machineType"],
        # Google writes 64-bit numbers as text.
        "count": int(specific["count"]),
        "inUseCount": int(specific.get("inUseCount", 0)),
    }


def _digest(settings: Settings, google: Google) -> Iterator[Finding]:
    image, repository = settings.serving.image, name_of(settings.stack, "docker-hub")
    path = f"{settings.project}/{repository}/{image.repository}/manifests/{image.tag}"
    url = f"{REGISTRY.format(region=settings.region)}/v2/{path}"
    digest = google.header(url, "Docker-Content-Digest", accept=MANIFESTS)
    yield row(
        area="images",
        name=f"{image.repository}:{image.tag}",
        state="to pin" if digest else "by up",
        needed="a digest in the stack file",
        granted=digest or "no such image or repository yet",
        why="a tag can be moved: the replicas of one fleet may then run different servers",
        mend=f"pulumi config set --path 'vllm-fleet:server.image.digest' {digest} --stack {settings.stack}"
        if digest
        else "ask again after `pulumi up`",
    )
