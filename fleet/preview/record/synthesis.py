"""Placeholder outputs of resources for the known mode: real formats, repeatable values.

Ids and links of Google Cloud are real paths built from the inputs. What only a cloud hands out (addresses, numbers,
certificates) is derived from the resource's name, and taken from ranges reserved for documentation where one exists.
A property that is not listed here stays unknown, so that whoever needs it is told instead of misled.
"""

from __future__ import annotations

import base64
import hashlib
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from string import Formatter
from typing import Any, Final

from fleet.preview.record.synthesis_kubernetes import kubernetes_outputs
from fleet.preview.record.values import UNKNOWN, Secret, Value

_COMPUTE = "https://www.googleapis.com/compute/v1/"
_CONTAINER = "https://container.googleapis.com/v1/"
_UUID_SPACE: Final = uuid.UUID("5f2c6a0e-5d0c-5f7e-9c39-0d2f7c1f8a11")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cloud:
    """The project and places the stack is configured for."""

    project: str
    region: str | None
    zone: str | None
    seed: str
    """Makes one stack's placeholders differ from another's."""

    @classmethod
    def of(cls, project: str, stack: str, config: Mapping[str, str]) -> Cloud:
        """Read `gcp:project`, `gcp:region` and `gcp:zone`; without a project a documentation name stands in."""
        return cls(
            project=config.get("gcp:project", "example-project"),
            region=config.get("gcp:region"),
            zone=config.get("gcp:zone"),
            seed=f"{project}/{stack}",
        )

    @property
    def project_number(self) -> str:
        """Twelve digits, as Google's project numbers: the project's, whatever the stack."""
        digest = hashlib.sha256(self.project.encode()).hexdigest()
        return str(100_000_000_000 + int(digest, 16) % 900_000_000_000)

    def digest(self, *parts: Value) -> str:
        """Hexadecimal text that depends on nothing but the stack and `parts`, of which some may be unknown."""
        return hashlib.sha256("\0".join((self.seed, *map(str, parts))).encode()).hexdigest()

    def uuid(self, *parts: str) -> str:
        """A repeatable UUID."""
        return str(uuid.uuid5(_UUID_SPACE, "\0".join((self.seed, *parts))))

    def address(self, *parts: Value) -> str:
        """An address of 203.0.113.0/24, reserved for documentation (RFC 5737)."""
        return f"203.0.113.{1 + int(self.digest(*parts), 16) % 254}"


def is_named(type_: str) -> bool:
    """Whether the provider draws a name for a resource of this type that has none."""
    return type_ in _NAMED


Outputs = dict[str, Any]
_Extra = Callable[[Outputs, Cloud], Outputs]
"""More outputs of one type, from its inputs and what is known so far (`name`, `project`, `id`, ...)."""


def outputs_of(type_: str, name: str, inputs: Mapping[str, Any], cloud: Cloud) -> tuple[str, Outputs]:
    """The id of a custom resource and the outputs it has beyond its inputs. An empty id means: unknown."""
    package = type_.partition(":")[0]
    if package == "gcp":
        return _google_outputs(type_, name, inputs, cloud)
    if package == "kubernetes":
        return kubernetes_outputs(
            type_,
            name,
            inputs,
            uid=cloud.uuid(type_, name),
            address=cloud.address(type_, name),
            suffix=cloud.digest(type_, name)[:8],
        )
    if type_.startswith("pulumi:providers:"):
        return cloud.uuid(type_, name), {}
    return "", {}


def _google_outputs(type_: str, name: str, inputs: Mapping[str, Any], cloud: Cloud) -> tuple[str, Outputs]:
    known: Outputs = {"project": inputs.get("project", cloud.project)}
    for key in ("region", "zone"):
        place = inputs.get(key) or getattr(cloud, key)
        if place:
            known[key] = place
    if type_ in _NAMED and "name" not in inputs:
        # The provider appends seven random characters to a name it has to invent.
        known["name"] = f"{name}-{cloud.digest(type_, name)[:7]}"
    facts = {**inputs, **known, "mark": cloud.digest(type_, name)[:16]}
    id_ = _filled(_IDS[type_], facts) if type_ in _IDS else _iam_id(facts)
    if isinstance(id_, str) and type_ in _LINKS:
        known["selfLink"] = _LINKS[type_] + id_
    if type_ in _EXTRA:
        known |= _EXTRA[type_]({**facts, **known, "id": id_}, cloud)
    return (id_ if isinstance(id_, str) else ""), known


def _filled(template: str, facts: Mapping[str, Any]) -> Value:
    """The template with its fields filled in, or UNKNOWN where one of them is."""
    values = {field: facts.get(field, UNKNOWN) for _, field, _, _ in Formatter().parse(template) if field}
    if any(isinstance(value, Secret) or value is UNKNOWN for value in values.values()):
        return UNKNOWN
    return template.format(**values)


def _iam_id(facts: Mapping[str, Any]) -> Value:
    """IAM members have the id `<what they are on> <role> <member>`, joined by slashes."""
    if not {"role", "member"} <= facts.keys():
        return UNKNOWN
    target = next((key for key in _IAM_TARGETS if key in facts), "project")
    return _filled(f"{{{target}}}/{{role}}/{{member}}", facts)


_IAM_TARGETS = ("serviceAccountId", "bucket", "secretId", "repository", "topic")

_IDS: Final[Mapping[str, str]] = {
    "gcp:artifactregistry/repository:Repository": "projects/{project}/locations/{location}/repositories/{repositoryId}",
    "gcp:certificatemanager/certificate:Certificate": "projects/{project}/locations/{location}/certificates/{name}",
    "gcp:certificatemanager/dnsAuthorization:DnsAuthorization": (
        "projects/{project}/locations/{location}/dnsAuthorizations/{name}"
    ),
    "gcp:compute/address:Address": "projects/{project}/regions/{region}/addresses/{name}",
    "gcp:compute/disk:Disk": "projects/{project}/zones/{zone}/disks/{name}",
    "gcp:compute/firewall:Firewall": "projects/{project}/global/firewalls/{name}",
    "gcp:compute/globalAddress:GlobalAddress": "projects/{project}/global/addresses/{name}",
    "gcp:compute/image:Image": "projects/{project}/global/images/{name}",
    "gcp:compute/network:Network": "projects/{project}/global/networks/{name}",
    "gcp:compute/regionCommitment:RegionCommitment": "projects/{project}/regions/{region}/commitments/{name}",
    "gcp:compute/reservation:Reservation": "projects/{project}/zones/{zone}/reservations/{name}",
    "gcp:compute/resourcePolicy:ResourcePolicy": "projects/{project}/regions/{region}/resourcePolicies/{name}",
    "gcp:compute/router:Router": "projects/{project}/regions/{region}/routers/{name}",
    "gcp:compute/routerNat:RouterNat": "{project}/{region}/{router}/{name}",
    "gcp:compute/snapshot:Snapshot": "projects/{project}/global/snapshots/{name}",
    "gcp:compute/subnetwork:Subnetwork": "projects/{project}/regions/{region}/subnetworks/{name}",
    "gcp:container/cluster:Cluster": "projects/{project}/locations/{location}/clusters/{name}",
    "gcp:monitoring/dashboard:Dashboard": "projects/{project}/dashboards/{mark}",
    "gcp:monitoring/notificationChannel:NotificationChannel": "projects/{project}/notificationChannels/{mark}",
    "gcp:projects/service:Service": "{project}/{service}",
    "gcp:secretmanager/secret:Secret": "projects/{project}/secrets/{secretId}",
    "gcp:secretmanager/secretVersion:SecretVersion": "{secret}/versions/1",
    "gcp:serviceaccount/account:Account": (
        "projects/{project}/serviceAccounts/{accountId}@{project}.iam.gserviceaccount.com"
    ),
    "gcp:storage/bucket:Bucket": "{name}",
}

_NAMED: Final = frozenset(type_ for type_, template in _IDS.items() if "{name}" in template)

_LINKS: Final[Mapping[str, str]] = {
    type_: _COMPUTE for type_ in _IDS if type_.startswith("gcp:compute/") and not type_.endswith(":RouterNat")
} | {"gcp:container/cluster:Cluster": _CONTAINER}


def _network(facts: Outputs, cloud: Cloud) -> Outputs:
    number = str(int(cloud.digest("network", facts["name"]), 16) % 10**19)
    return {"networkId": number, "numericId": number, "gatewayIpv4": ""}


def _subnetwork(facts: Outputs, cloud: Cloud) -> Outputs:
    return {
        "fingerprint": cloud.digest("subnetwork", facts["name"])[:12],
        "creationTimestamp": "2026-01-01T00:00:00.000-00:00",
        "stackType": facts.get("stackType", "IPV4_ONLY"),
    }


def _address(facts: Outputs, cloud: Cloud) -> Outputs:
    return {"address": facts.get("address", cloud.address("address", facts["name"]))}


def _authorization(facts: Outputs, cloud: Cloud) -> Outputs:
    mark, domain = cloud.digest("authorization", facts["name"]), facts.get("domain", UNKNOWN)
    record = {
        "name": _filled("_acme-challenge_" + mark[:16] + ".{domain}.", {"domain": domain}),
        "type": "CNAME",
        "data": f"{cloud.uuid('authorization', facts['name'])}.authorize.certificatemanager.goog.",
    }
    return {"dnsResourceRecords": [record]}


def _cluster(facts: Outputs, cloud: Cloud) -> Outputs:
    mark = cloud.digest("cluster", facts["name"])
    # Readable by whoever decodes it, and refused by whoever would use it.
    certificate = base64.b64encode(f"offline preview: no certificate of {facts['name']}".encode()).decode()
    location = facts.get("location", cloud.region)
    dns_endpoint = _filled("gke-" + mark[:32] + "-{number}.{location}.gke.goog", {
        "number": cloud.project_number, "location": location,
    })  # fmt: skip
    return {
        "endpoint": cloud.address("cluster", facts["name"]),
        "masterAuth": {"clusterCaCertificate": certificate},
        "masterVersion": facts.get("minMasterVersion", UNKNOWN),
        "controlPlaneEndpointsConfig": {"dnsEndpointConfig": {"endpoint": dns_endpoint}},
        "workloadIdentityConfig": {"workloadPool": _filled("{project}.svc.id.goog", facts)},
    }


def _account(facts: Outputs, cloud: Cloud) -> Outputs:
    email = _filled("{accountId}@{project}.iam.gserviceaccount.com", facts)
    return {
        "email": email,
        "member": _filled("serviceAccount:{email}", {"email": email}),
        "name": facts["id"],
        "uniqueId": str(10**20 + int(cloud.digest("account", facts["id"]), 16) % 10**20),
    }


def _bucket(facts: Outputs, cloud: Cloud) -> Outputs:
    return {
        "url": _filled("gs://{name}", facts),
        "selfLink": _filled("https://www.googleapis.com/storage/v1/b/{name}", facts),
        "projectNumber": int(cloud.project_number),
    }


def _repository(facts: Outputs, cloud: Cloud) -> Outputs:  # noqa: ARG001
    return {
        "name": facts.get("repositoryId", UNKNOWN),
        "registryUri": _filled("{location}-docker.pkg.dev/{project}/{repositoryId}", facts),
    }


def _secret(facts: Outputs, cloud: Cloud) -> Outputs:
    path = {"number": cloud.project_number, "secretId": facts.get("secretId", UNKNOWN)}
    return {"name": _filled("projects/{number}/secrets/{secretId}", path)}


def _secret_version(facts: Outputs, cloud: Cloud) -> Outputs:  # noqa: ARG001
    return {"name": facts["id"], "version": "1"}


_EXTRA: Final[Mapping[str, _Extra]] = {
    "gcp:artifactregistry/repository:Repository": _repository,
    "gcp:certificatemanager/dnsAuthorization:DnsAuthorization": _authorization,
    "gcp:compute/address:Address": _address,
    "gcp:compute/globalAddress:GlobalAddress": _address,
    "gcp:compute/network:Network": _network,
    "gcp:compute/subnetwork:Subnetwork": _subnetwork,
    "gcp:container/cluster:Cluster": _cluster,
    "gcp:secretmanager/secret:Secret": _secret,
    "gcp:secretmanager/secretVersion:SecretVersion": _secret_version,
    "gcp:serviceaccount/account:Account": _account,
    "gcp:storage/bucket:Bucket": _bucket,
}


def answer_invoke(token: str, arguments: Mapping[str, Any], cloud: Cloud) -> Outputs:
    """What a data source of `ANSWERED_INVOKES` says of the project the stack is configured for."""
    return _INVOKES[token](arguments, cloud)


def _get_project(arguments: Mapping[str, Any], cloud: Cloud) -> Outputs:
    project = arguments.get("projectId", cloud.project)
    return {
        "id": f"projects/{project}",
        "projectId": project,
        "name": project,
        "number": cloud.project_number,
    }


def _get_client_config(arguments: Mapping[str, Any], cloud: Cloud) -> Outputs:  # noqa: ARG001
    places = {"region": cloud.region, "zone": cloud.zone}
    return {
        "id": f"projects/{cloud.project}",
        "project": cloud.project,
        "accessToken": Secret("offline-preview-has-no-access-token"),
        **{key: place for key, place in places.items() if place},
    }


def _get_storage_account(arguments: Mapping[str, Any], cloud: Cloud) -> Outputs:
    email = f"service-{cloud.project_number}@gs-project-accounts.iam.gserviceaccount.com"
    project = arguments.get("project", cloud.project)
    return {"id": email, "emailAddress": email, "member": f"serviceAccount:{email}", "project": project}


_INVOKES: Final[Mapping[str, Callable[[Mapping[str, Any], Cloud], Outputs]]] = {
    "gcp:organizations/getClientConfig:getClientConfig": _get_client_config,
    "gcp:organizations/getProject:getProject": _get_project,
    "gcp:storage/getProjectServiceAccount:getProjectServiceAccount": _get_storage_account,
}
ANSWERED_INVOKES: Final = tuple(sorted(_INVOKES))
"""Tokens of the data sources that need no cloud to be answered."""
