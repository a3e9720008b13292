"""Turns Google Cloud's answers into rows of needed, granted and missing. Pure functions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from facts import disks, gke_releases
from facts.finding import Finding
from facts.texts import plural
from fleet.doctor import advice
from fleet.doctor.gcloud import NoAnswerError
from fleet.doctor.judge_domain import domain_rows
from fleet.doctor.judge_network import readers
from fleet.doctor.judge_quota import quota_row
from fleet.doctor.questions import Answer, image_repository, reservation_of, uses_spot
from fleet.doctor.rows import Area, row
from fleet.doctor.shapes import mapping, objects, texts, unreadable, whole, word
from settings.derived.google_cloud_needs import required_apis, required_permissions
from settings.derived.quota_needs import machine_types, quota_needs

if TYPE_CHECKING:
    from settings.stack import Settings


def judge(settings: Settings, answers: Mapping[str, Answer]) -> tuple[Finding, ...]:
    """Every row, in the order of a first `pulumi up`."""
    of_project, accelerator = f"--project={settings.project}", settings.machine.accelerator
    rows = [
        *_rows(
            "billing",
            settings.project,
            "on",
            answers["billing"],
            lambda said: _billing(settings, said),
            look=f"gcloud billing projects describe {settings.project}",
        ),
        *_rows(
            "api",
            "APIs",
            len(required_apis(settings)),
            answers["APIs"],
            lambda said: _apis(settings, said),
            look=f"gcloud services list --enabled {of_project}",
        ),
        *_rows(
            "permission",
            "permissions on the project",
            len(required_permissions(settings)),
            answers["permissions"],
            lambda said: _permissions(settings, said),
            look=f"gcloud projects get-iam-policy {settings.project}",
        ),
        *_rows(
            "zone",
            "machine types",
            ", ".join(settings.zones),
            answers["machine types"],
            lambda said: _machine_types(settings, said),
            look=f"gcloud compute machine-types list --zones={','.join(settings.zones)} {of_project}",
        ),
        *_rows(
            "zone",
            accelerator,
            ", ".join(settings.zones),
            answers["accelerator types"],
            lambda said: [_everywhere(settings, accelerator, said)],
            look=f"gcloud compute accelerator-types list --filter=name={accelerator} {of_project}",
        ),
    ]
    if settings.weights.has_volume:
        rows += _rows(
            "zone",
            disks.TYPE,
            ", ".join(settings.zones),
            answers["disk types"],
            lambda said: [_everywhere(settings, disks.TYPE, said)],
            look=f"gcloud compute disk-types list --filter=name={disks.TYPE} {of_project}",
        )
    if uses_spot(settings):
        rows += _rows(
            "spot",
            f"{settings.machine.type} on Spot",
            settings.nodes,
            answers["Spot"],
            lambda said: [_spot(settings, advice.read(one)) for one in objects(said)],
            look=f"gcloud beta compute advice capacity --region={settings.region} --zones={','.join(settings.zones)} "
            f"--provisioning-model=SPOT --size={settings.nodes} --instance-selection-machine-types={settings.machine.type} "
            f"--target-distribution-shape=any-single-zone {of_project}",
        )
    if (reserved := reservation_of(settings)) is not None:
        name, owner = reserved
        rows += _rows(
            "reservation",
            name,
            settings.nodes,
            answers["reservation"],
            lambda said: _reservation(settings, said),
            look=f"gcloud compute reservations list --project={owner}",
        )
    rows += [quota_row(need, settings, answers) for need in quota_needs(settings)]
    for question, name, read, look in readers(settings):
        rows += _rows("network", name, "there", answers[question], read, look=look)
    if settings.owns_platform:
        rows += _rows(
            "gke",
            _of_channel(settings),
            _version_needed(settings),
            answers["GKE versions"],
            lambda said: [_gke(settings, said)],
            look=f"gcloud container get-server-config --region={settings.region} {of_project}",
        )
        rows += _rows(
            "images",
            image_repository(settings),
            "reachable",
            answers["images"],
            lambda said: _images(settings, said),
            look=f"gcloud artifacts repositories describe {image_repository(settings)} --location={settings.region} {of_project}",
        )
    for name, needed, answer, read, look in domain_rows(settings, answers):
        rows += _rows("domain", name, needed, answer, read, look=look)
    return tuple(rows)


def _rows(
    area: Area,
    name: str,
    needed: int | str,
    answer: Answer,
    read: Callable[[Any], Iterable[Finding]],
    *,
    look: str,
) -> Iterator[Finding]:
    """The rows for an answer, or one row with the reason for its absence."""
    try:
        if isinstance(answer, NoAnswerError):
            raise answer
        yield from list(read(answer))
    except NoAnswerError as error:
        mend = "gcloud auth login --update-adc" if error.reason == "login" else look
        yield row(area=area, name=name, state="unknown", needed=needed, granted="", why=str(error), mend=mend)


def _billing(settings: Settings, said: Any) -> Iterator[Finding]:
    found = mapping(said)
    if "projectId" not in found and "billingEnabled" not in found:
        raise unreadable()
    # protobuf's JSON omits false.
    on = found.get("billingEnabled") is True
    yield row(
        area="billing",
        name=settings.project,
        state="ready" if on else "missing",
        needed="on",
        granted="on" if on else "off",
        missing="" if on else "a billing account",
        why="" if on else "billable resources require a billing account",
        mend="" if on else f"gcloud billing projects link {settings.project} --billing-account=ACCOUNT",
    )


def _apis(settings: Settings, said: Any) -> Iterator[Finding]:
    on = {word(mapping(object_.get("config")).get("name")) for object_ in objects(said)}
    needed = required_apis(settings)
    off = [api for api in needed if api not in on]
    yield row(
        area="api",
        name="APIs",
        state="by up" if off else "ready",
        needed=len(needed),
        granted=len(needed) - len(off),
        missing=len(off) or "",
        why=f"`pulumi up` enables {', '.join(off)}" if off else "",
        # Limits of a disabled API cannot be read.
        mend=f"gcloud services enable {' '.join(off)} --project={settings.project}" if off else "",
    )


def _permissions(settings: Settings, said: Any) -> Iterator[Finding]:
    needed = required_permissions(settings)
    granted = mapping(said).get("permissions", [])
    if not isinstance(granted, list):
        raise unreadable()
    lacking: dict[str, list[str]] = {}
    for permission, role in needed.items():
        if permission not in granted:
            lacking.setdefault(role, []).append(permission)
    if not lacking:
        yield row(
            area="permission", name="permissions on the project", state="ready", needed=len(needed), granted=len(needed)
        )
    for role, permissions in lacking.items():
        of_role = [permission for permission, its in needed.items() if its == role]
        yield row(
            area="permission",
            name=role,
            state="missing",
            needed=len(of_role),
            granted=len(of_role) - len(permissions),
            missing=len(permissions),
            why=f"{', '.join(permissions)}, checked with the login that `pulumi up` uses",
            mend=f"gcloud projects add-iam-policy-binding {settings.project} --member=user:YOUR-ADDRESS --role={role}",
        )


def _machine_types(settings: Settings, said: Any) -> Iterator[Finding]:
    offered = {(word(object_.get("name")), word(object_.get("zone"))) for object_ in objects(said)}
    for machine in machine_types(settings):
        zones = sorted(zone for name, zone in offered if name == machine and zone.startswith(f"{settings.region}-"))
        if machine == settings.machine.type:
            yield _in_zones(settings, machine, [zone for zone in settings.zones if zone in zones], zones)
        else:
            yield _in_region(settings, machine, zones)


def _in_region(settings: Settings, machine: str, zones: list[str]) -> Finding:
    """Machines without GPUs may use any zone of the region; the writer's volume and the clients follow."""
    return row(
        area="zone",
        name=machine,
        state="ready" if zones else "missing",
        needed=f"a zone of {settings.region}",
        granted=", ".join(zones) or "none",
        missing="" if zones else settings.region,
        why="offered; availability is known only at `pulumi up`"
        if zones
        else f"not offered in any zone of {settings.region}",
        mend="" if zones else "another region, or another family for the weights writer (docs/weights.md)",
    )


def _everywhere(settings: Settings, name: str, said: Any) -> Finding:
    """Whether each zone has an accelerator or disk type, by the list of its zones."""
    everywhere = sorted({word(object_.get("zone")) for object_ in objects(said) if object_.get("name") == name})
    return _in_zones(settings, name, [zone for zone in settings.zones if zone in everywhere], everywhere)


def _in_zones(settings: Settings, name: str, zones: list[str], everywhere: list[str]) -> Finding:
    without = [zone for zone in settings.zones if zone not in zones]
    elsewhere = f"; offered in {', '.join(everywhere)}" if everywhere and without else ""
    return row(
        area="zone",
        name=name,
        state="missing" if without else "ready",
        needed=", ".join(settings.zones),
        granted=", ".join(zones) or "none",
        missing=", ".join(without),
        why=f"not offered there{elsewhere}" if without else "offered; availability is known only at `pulumi up`",
        mend=f"pulumi config set --path 'vllm-fleet:zones[0]' ZONE --stack {settings.stack}" if without else "",
    )


def _of_channel(settings: Settings) -> str:
    return f"GKE of channel {settings.cluster.release_channel}"


def _version_needed(settings: Settings) -> str:
    """The stack's minimum version, or the machine's where that is later."""
    return max(settings.cluster.min_version or "", settings.machine.min_gke, key=gke_releases.numbers)


def _gke(settings: Settings, said: Any) -> Finding:
    """Whether a new cluster of the channel gets what the stack asks for: `cluster.minVersion` is sent as its minor version."""
    asked, channel = settings.cluster.min_version, settings.cluster.release_channel
    found = next((one for one in objects(mapping(said).get("channels")) if one.get("channel") == channel), None)
    if found is None:
        raise unreadable()
    offered = sorted(texts(found.get("validVersions")), key=gke_releases.numbers)
    if asked is None:
        given = [word(found.get("defaultVersion"))]
    else:
        given = [one for one in offered if gke_releases.minor(one) == gke_releases.minor(asked)]
    needed = _version_needed(settings)
    is_there = bool(given) and gke_releases.numbers(given[-1]) >= gke_releases.numbers(needed)
    return row(
        area="gke",
        name=_of_channel(settings),
        state="ready" if is_there else "missing",
        needed=f"{needed} or later" if needed else "any",
        granted=given[-1] if given else "none",
        missing="" if is_there else needed,
        why=f"the channel offers {offered[0]} to {offered[-1]}" if offered else "the channel offers no version",
        mend=""
        if is_there
        else "cluster.minVersion of a minor version that the channel offers, or another cluster.releaseChannel",
    )


def _spot(settings: Settings, zone: advice.Advice) -> Finding:
    is_likely = zone.obtainability is not None and zone.obtainability >= advice.LIKELY
    return row(
        area="spot",
        name=f"{settings.machine.type} on Spot, {zone.zone}",
        state="ready" if is_likely else "of today",
        needed=settings.nodes,
        granted=zone.level,
        why="; ".join(zone.words) or "Google has no figures of this machine there",
        mend="" if is_likely else "another zone or capacity (docs/machines.md), or another day",
    )


def _reservation(settings: Settings, said: Any) -> Iterator[Finding]:
    found = objects(said)
    name, owner = reservation_of(settings) or ("", "")
    if not found:
        yield row(
            area="reservation",
            name=name,
            state="missing",
            needed=settings.nodes,
            granted=0,
            missing=settings.nodes,
            why=f"not found in {', '.join(settings.zones)}; a window of calendar mode appears once it is approved",
            mend=f"gcloud compute reservations list --project={owner}",
        )
        return
    for one in found:
        yield _one_reservation(settings, name, owner, one)


def _one_reservation(settings: Settings, name: str, owner: str, found: Mapping[str, Any]) -> Finding:
    zone, held = word(found.get("zone")), mapping(found.get("specificReservation"))
    count, used = whole(held.get("count")), whole(held.get("inUseCount", 0))
    machine = word(mapping(held.get("instanceProperties")).get("machineType"))
    wrong = []
    if found.get("status") != "READY":
        wrong.append(f"its status is {found.get('status')}, not READY")
    if found.get("specificReservationRequired") is not True:
        wrong.append(
            "it is not a specific reservation (specificReservationRequired), the only kind that Autopilot uses"
        )
    wanted = settings.machine
    if machine != wanted.type:
        wrong.append(f"it holds {machine}, not {wanted.type}")
    needed, free = settings.nodes, count - used
    if count < needed:
        wrong.append(f"it holds {count} machines")
    why = f"{count} of {wanted.type} ({plural(count * wanted.gpus, 'GPU')}) in {zone}, {used} in use"
    look = f"gcloud compute reservations describe {name} --zone={zone} --project={owner}"
    if wrong:
        return row(
            area="reservation",
            name=name,
            state="missing",
            needed=needed,
            granted=free,
            missing=max(0, needed - count) or "",
            why="; ".join(wrong),
            mend=look,
        )
    if free < needed:
        # A running stack uses its own machines.
        why += f"; fewer than {needed} are free, which is fine only if this stack uses the others"
        return row(
            area="reservation",
            name=name,
            state="unknown",
            needed=needed,
            granted=free,
            missing=needed - free,
            why=why,
            mend=f"gcloud compute instances list --filter=zone:{zone} --project={settings.project}",
        )
    return row(area="reservation", name=name, state="ready", needed=needed, granted=free, why=why)


def _images(settings: Settings, said: Any) -> Iterator[Finding]:
    found, name, needed = mapping(said), image_repository(settings), "reachable"
    if not found:
        why = "created by `pulumi up`; only a pull tests the path to Docker Hub"
        yield row(area="images", name=name, state="by up", needed=needed, granted="not there yet", why=why)
        return
    repository, code = mapping(found.get("repository")), whole(found.get("pull"))
    if repository.get("mode") != "REMOTE_REPOSITORY":
        raise unreadable()
    remote = mapping(repository.get("remoteRepositoryConfig", {}))
    login = (
        "with an account" if remote.get("upstreamCredentials") else "anonymous, with an address shared by many projects"
    )
    if settings.registry is not None and not remote.get("upstreamCredentials"):
        login += " (`pulumi up` adds the account)"
    asked = settings.serving.image
    image = f"{asked.repository}@{asked.digest[:19]}" if asked.digest else f"{asked.repository}:{asked.tag}"
    if code == 200:
        yield row(area="images", name=name, state="ready", needed=needed, granted="reachable", why=f"{image}, {login}")
        if asked.digest is None and isinstance(digest := found.get("digest"), str):
            yield row(
                area="images",
                name=image,
                state="to pin",
                needed="a digest in the stack file",
                granted=digest,
                why="a tag can be moved: the replicas of one fleet may then run different servers",
                mend=f"pulumi config set --path 'vllm-fleet:server.image.digest' {digest} --stack {settings.stack}",
            )
        return
    says = {
        403: "permission denied: the login needs roles/artifactregistry.reader on the repository",
        404: f"{image} does not exist on Docker Hub, or the repository lacks access to it",
        429: f"Docker Hub's pull limit is reached, {login}; wait six hours, or give it an account",
    }.get(code)
    yield row(
        area="images",
        name=name,
        state="missing" if says else "unknown",
        needed=needed,
        granted=f"HTTP {code}",
        why=says or "unexpected response for a registry",
        mend="vllm-fleet:registry: {dockerHubUser: NAME, dockerHubTokenSecret: SECRET} in the stack file (docs/google-cloud.md)"
        if code == 429
        else f"gcloud artifacts repositories describe {name} --location={settings.region} --project={settings.project}",
    )
