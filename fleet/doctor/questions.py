"""Queries to Google Cloud about a stack, in parallel, each with its own timeout and error."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from facts import disks
from facts.quotas import SERVICE
from fleet.clients.side_by_side import side_by_side
from fleet.doctor import advice, gcloud, rest
from fleet.doctor.gcloud import NoAnswerError
from fleet.doctor.judge_domain import domain_questions
from fleet.doctor.judge_network import existing_of, host_of
from fleet.doctor.shapes import mapping
from infra.naming import name_of
from settings.derived.google_cloud_needs import host_permissions, required_permissions
from settings.derived.quota_needs import QuotaNeed, machine_types, quota_needs
from settings.sections.capacity import Calendar, Ladder, Reservation, Spot

if TYPE_CHECKING:
    from settings.stack import Settings

Answer = Any | NoAnswerError
"""gcloud's output as JSON, or the error."""

RESOURCE_MANAGER = "https://cloudresourcemanager.googleapis.com"
"""For `projects.testIamPermissions`, which gcloud has no command for."""
REGISTRY = "https://{region}-docker.pkg.dev"
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


def ask_all(settings: Settings) -> dict[str, Answer]:
    """Answers by query name."""
    asked = questions(settings)

    def answer(name: str) -> Answer:
        try:
            return asked[name]()
        except NoAnswerError as error:
            return error

    names = list(asked)
    return dict(zip(names, side_by_side(answer, names, len(names)), strict=True))


def questions(settings: Settings) -> dict[str, Callable[[], Any]]:
    """All queries about this stack, by name."""
    project, region = settings.project, settings.region
    of_project = f"--project={project}"
    asked: dict[str, Callable[[], Any]] = {
        quota_question(need): partial(_quota_infos, need, project) for need in quota_needs(settings)
    }
    asked |= {
        "region": lambda: gcloud.ask("compute", "regions", "describe", region, of_project),
        "project": lambda: gcloud.ask("compute", "project-info", "describe", of_project),
        "machine types": lambda: gcloud.ask(
            "compute",
            "machine-types",
            "list",
            f"--filter=name=({' '.join(machine_types(settings))}) AND zone~/{region}-[a-z]+$",
            of_project,
        ),
        "accelerator types": lambda: gcloud.ask(
            "compute", "accelerator-types", "list", f"--filter=name={settings.machine.accelerator}", of_project
        ),
        "APIs": lambda: gcloud.ask("services", "list", "--enabled", of_project),
        "billing": lambda: gcloud.ask("billing", "projects", "describe", project),
        "permissions": lambda: _permissions(settings),
    }
    if (reserved := reservation_of(settings)) is not None:
        asked["reservation"] = lambda: _reservations(*reserved, settings.zones)
    if uses_spot(settings):
        asked["Spot"] = lambda: _spot(settings)
    if settings.weights.has_volume:
        asked["disk types"] = lambda: gcloud.ask(
            "compute", "disk-types", "list", f"--filter=name={disks.TYPE}", of_project
        )
    if settings.owns_platform:
        asked["images"] = lambda: _images(settings)
        asked["GKE versions"] = lambda: gcloud.ask("container", "get-server-config", f"--region={region}", of_project)
    return asked | _of_network(settings) | domain_questions(settings)


def _of_network(settings: Settings) -> dict[str, Callable[[], Any]]:
    """Queries about the existing VPC of the stack's cluster, and about the host project of a Shared VPC."""
    existing, host, region = existing_of(settings), host_of(settings), settings.region
    if existing is None:
        return {}
    of_host = f"--project={host or settings.project}"
    asked: dict[str, Callable[[], Any]] = {
        "subnets": lambda: gcloud.ask("compute", "networks", "subnets", "list", f"--network={existing.vpc}", of_host),
        "routers": lambda: gcloud.ask("compute", "routers", "list", f"--regions={region}", of_host),
    }
    if host is None:
        return asked
    return asked | {
        "host project": lambda: gcloud.ask("compute", "shared-vpc", "get-host-project", settings.project),
        "network agents": lambda: {
            "project": gcloud.ask("projects", "describe", settings.project),
            "host policy": gcloud.ask("projects", "get-iam-policy", host),
            "subnet policy": gcloud.ask(
                "compute", "networks", "subnets", "get-iam-policy", existing.subnet, f"--region={region}", of_host
            ),
        },
        "host permissions": lambda: _host_permissions(settings, host, existing.subnet),
    }


def quota_question(need: QuotaNeed) -> str:
    """Name of the query for a quota."""
    return f"quota {need.quota.metric}"


def reservation_of(settings: Settings) -> tuple[str, str] | None:
    """Name and project of the stack's reservation; None if it has none or none yet."""
    match settings.capacity:
        case Reservation(name=name, project=project):
            return name, project or settings.project
        case Ladder(reservation=rung) if rung is not None:
            return rung.name, rung.project or settings.project
        case Calendar(reservation=name):
            return name, settings.project
    return None


def uses_spot(settings: Settings) -> bool:
    """Whether nodes may be Spot machines."""
    capacity = settings.capacity
    return isinstance(capacity, Spot) or (isinstance(capacity, Ladder) and capacity.spot)


def image_repository(settings: Settings) -> str:
    """Id of the stack's pull-through repository for Docker Hub."""
    return name_of(settings.stack, "docker-hub")


_TRACKS: Final = (("beta",), ())
"""Cloud Quotas' commands are beta in gcloud 528 and have left beta since."""


def _quota_infos(need: QuotaNeed, project: str) -> list[Any]:
    """Cloud Quotas' entries for each id of the quota that the project has."""
    found = []
    for quota_id in need.quota.ids:
        try:
            found.append(_quota_info(quota_id, project))
        except NoAnswerError as error:
            if error.reason != "not found":
                raise
    return found


def _quota_info(quota_id: str, project: str) -> Any:
    refused = NoAnswerError("this gcloud has no `quotas` command", "no such command")
    for track in _TRACKS:
        try:
            return gcloud.ask(
                *track, "quotas", "info", "describe", quota_id, f"--service={SERVICE}", f"--project={project}"
            )
        except NoAnswerError as error:
            if error.reason != "no such command":
                raise
            refused = error
    raise refused


def _reservations(name: str, project: str, zones: tuple[str, ...]) -> list[Any]:
    """The reservation of that name in each zone that has one."""
    found = []
    for zone in zones:
        try:
            found.append(
                gcloud.ask("compute", "reservations", "describe", name, f"--zone={zone}", f"--project={project}")
            )
        except NoAnswerError as error:
            if error.reason != "not found":
                raise
    return found


def _spot(settings: Settings) -> list[Mapping[str, Any]]:
    """Google's advice for each zone, as if it had to hold all nodes."""
    bearer, nodes = rest.token(), max(settings.nodes, 1)
    return [advice.ask(settings.project, settings.machine.type, zone, nodes, bearer) for zone in settings.zones]


def _permissions(settings: Settings) -> Any:
    return _granted(
        f"{RESOURCE_MANAGER}/v1/projects/{settings.project}:testIamPermissions", required_permissions(settings)
    )


def _host_permissions(settings: Settings, host: str, subnet: str) -> dict[str, list[str]]:
    """Those on the host project, and those on the subnet alone, where network users usually have them."""
    of_subnet = f"{rest.COMPUTE}/v1/projects/{host}/regions/{settings.region}/subnetworks/{subnet}/testIamPermissions"
    answers = [
        _granted(f"{RESOURCE_MANAGER}/v1/projects/{host}:testIamPermissions", host_permissions(settings)),
        _granted(of_subnet, [one for one in host_permissions(settings) if one == "compute.subnetworks.use"]),
    ]
    return {"permissions": [permission for said in answers for permission in mapping(said).get("permissions", [])]}


def _granted(url: str, permissions: Iterable[str]) -> Any:
    return rest.post(url, rest.token(), {"permissions": list(permissions)})


def _images(settings: Settings) -> Mapping[str, Any]:
    """The image repository, and the HTTP status of requesting vLLM's image; empty if the repository does not exist yet."""
    name, project, region = image_repository(settings), settings.project, settings.region
    try:
        found = gcloud.ask(
            "artifacts", "repositories", "describe", name, f"--location={region}", f"--project={project}"
        )
    except NoAnswerError as error:
        if error.reason in ("not found", "API off"):
            return {}
        raise
    image = settings.serving.image
    manifest = image.digest or image.tag
    url = f"{REGISTRY.format(region=region)}/v2/{project}/{name}/{image.repository}/manifests/{manifest}"
    code, digest = rest.header(url, rest.token(), "Docker-Content-Digest", accept=MANIFESTS)
    return {"repository": found, "pull": code, "digest": digest}
