from __future__ import annotations

import base64
from dataclasses import replace
from typing import Any

from fleet.preview.record.synthesis import ANSWERED_INVOKES, Cloud, answer_invoke, outputs_of
from fleet.preview.record.values import UNKNOWN, Secret
from tests.support.rows import each_row

CLOUD = Cloud.of(
    "vllm-fleet", "spot", {"gcp:project": "my-project", "gcp:region": "europe-west4", "gcp:zone": "europe-west4-b"}
)


def outputs(type_: str, **inputs: Any) -> dict[str, Any]:
    return outputs_of(type_, "thing", inputs, CLOUD)[1]


def id_of(type_: str, **inputs: Any) -> str:
    return outputs_of(type_, "thing", inputs, CLOUD)[0]


@each_row(
    ("type_", "inputs", "expected"),
    [
        ("gcp:compute/network:Network", {"name": "n"}, "projects/my-project/global/networks/n"),
        (
            "gcp:compute/subnetwork:Subnetwork",
            {"name": "s", "region": "us-east1"},
            "projects/my-project/regions/us-east1/subnetworks/s",
        ),
        ("gcp:compute/router:Router", {"name": "r"}, "projects/my-project/regions/europe-west4/routers/r"),
        ("gcp:compute/disk:Disk", {"name": "d"}, "projects/my-project/zones/europe-west4-b/disks/d"),
        (
            "gcp:container/cluster:Cluster",
            {"name": "c", "location": "europe-west4"},
            "projects/my-project/locations/europe-west4/clusters/c",
        ),
        ("gcp:secretmanager/secret:Secret", {"secretId": "t"}, "projects/my-project/secrets/t"),
        ("gcp:storage/bucket:Bucket", {"name": "b"}, "b"),
        (
            "gcp:artifactregistry/repository:Repository",
            {"repositoryId": "i", "location": "eu"},
            "projects/my-project/locations/eu/repositories/i",
        ),
        (
            "gcp:serviceaccount/account:Account",
            {"accountId": "a", "project": "other"},
            "projects/other/serviceAccounts/a@other.iam.gserviceaccount.com",
        ),
        (
            "gcp:storage/bucketIAMMember:BucketIAMMember",
            {"bucket": "b", "role": "roles/x", "member": "user:u"},
            "b/roles/x/user:u",
        ),
    ],
)
def test_ids_are_the_paths_google_cloud_uses(type_: str, inputs: dict[str, Any], expected: str) -> None:
    assert id_of(type_, **inputs) == expected


def test_an_id_made_of_something_unknown_is_unknown() -> None:
    assert id_of("gcp:compute/network:Network", name=UNKNOWN) == ""
    assert outputs("gcp:serviceaccount/account:Account", accountId=UNKNOWN)["email"] is UNKNOWN


def test_types_that_are_not_listed_have_no_id() -> None:
    assert id_of("gcp:pubsub/topic:Topic", name="t") == ""
    assert id_of("random:index/randomId:RandomId") == ""


def test_self_links_are_the_id_under_the_api() -> None:
    assert outputs("gcp:compute/network:Network", name="n")["selfLink"] == (
        "https://www.googleapis.com/compute/v1/projects/my-project/global/networks/n"
    )


def test_names_left_out_get_a_suffix_as_from_the_provider() -> None:
    name = outputs("gcp:compute/network:Network")["name"]
    assert name.startswith("thing-")
    assert len(name) == len("thing-") + 7


def test_a_cluster_has_endpoints_and_a_certificate_that_says_it_is_none() -> None:
    cluster = outputs("gcp:container/cluster:Cluster", name="c", location="europe-west4")
    assert cluster["endpoint"].startswith("203.0.113.")
    dns = cluster["controlPlaneEndpointsConfig"]["dnsEndpointConfig"]["endpoint"]
    assert dns.endswith(f"-{CLOUD.project_number}.europe-west4.gke.goog")
    assert "no certificate" in base64.b64decode(cluster["masterAuth"]["clusterCaCertificate"]).decode()
    assert cluster["workloadIdentityConfig"] == {"workloadPool": "my-project.svc.id.goog"}


def test_a_bucket_has_a_url() -> None:
    assert outputs("gcp:storage/bucket:Bucket", name="b")["url"] == "gs://b"


def test_values_are_repeatable_and_differ_between_stacks() -> None:
    other = Cloud.of("vllm-fleet", "dev", {"gcp:project": "my-project"})
    assert CLOUD.digest("x") == CLOUD.digest("x") != other.digest("x")


def test_kubernetes_objects_get_their_id_from_namespace_and_name() -> None:
    assert id_of("kubernetes:core/v1:Service", metadata={"name": "s", "namespace": "n"}) == "n/s"
    assert id_of("kubernetes:core/v1:Service", metadata={"name": "s"}) == "default/s"
    assert id_of("kubernetes:core/v1:Namespace", metadata={"name": "n"}) == "n"
    assert id_of("kubernetes:cloud.google.com/v1:ComputeClass", metadata={"name": "c"}) == "c"
    assert id_of("kubernetes:core/v1:Service", metadata={"name": "s", "namespace": UNKNOWN}) == ""


def test_kubernetes_objects_are_healthy() -> None:
    deployment = outputs("kubernetes:apps/v1:Deployment", metadata={"name": "d"}, spec={"replicas": 12})
    assert deployment["status"]["readyReplicas"] == 12
    job = outputs("kubernetes:batch/v1:Job", metadata={"name": "j"}, spec={"completions": 3})
    assert job["status"]["succeeded"] == 3
    claim = outputs(
        "kubernetes:core/v1:PersistentVolumeClaim",
        metadata={"name": "c"},
        spec={"accessModes": ["ReadOnlyMany"], "resources": {"requests": {"storage": "64Gi"}}},
    )
    assert claim["status"] == {"phase": "Bound", "accessModes": ["ReadOnlyMany"], "capacity": {"storage": "64Gi"}}


def test_only_a_load_balancer_has_an_address_of_its_own() -> None:
    balanced = outputs("kubernetes:core/v1:Service", metadata={"name": "s"}, spec={"type": "LoadBalancer"})
    internal = outputs("kubernetes:core/v1:Service", metadata={"name": "s"}, spec={"type": "ClusterIP"})
    assert balanced["status"]["loadBalancer"]["ingress"][0]["ip"].startswith("203.0.113.")
    assert internal["status"]["loadBalancer"] == {}
    assert internal["spec"]["clusterIP"].startswith("198.51.100.")


def test_a_release_is_deployed() -> None:
    id_, release = outputs_of(
        "kubernetes:helm.sh/v3:Release",
        "r",
        {"name": "epp", "namespace": "n", "chart": "oci://c", "version": "1"},
        CLOUD,
    )
    assert id_ == "n/epp"
    assert release["status"]["status"] == "deployed"
    assert release["status"]["chart"] == "oci://c"


def test_data_sources_answer_for_the_project_of_the_stack() -> None:
    project = answer_invoke("gcp:organizations/getProject:getProject", {}, CLOUD)
    assert project["projectId"] == "my-project"
    assert project["number"] == CLOUD.project_number == replace(CLOUD, seed="another/stack").project_number
    client = answer_invoke("gcp:organizations/getClientConfig:getClientConfig", {}, CLOUD)
    assert isinstance(client["accessToken"], Secret)
    account = answer_invoke("gcp:storage/getProjectServiceAccount:getProjectServiceAccount", {}, CLOUD)
    assert (
        account["member"]
        == f"serviceAccount:service-{CLOUD.project_number}@gs-project-accounts.iam.gserviceaccount.com"
    )
    assert len(ANSWERED_INVOKES) == 3
