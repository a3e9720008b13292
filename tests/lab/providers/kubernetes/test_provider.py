"""The Kubernetes provider against a cluster in memory: what it makes, previews, waits for, refuses and finds again."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from fleet.preview.record.values import UNKNOWN, Secret
from lab.control_plane.api import NO_SUCH_KIND, UNANSWERED, ApiUnreachableError, Kind, Manifest
from lab.providers.kubernetes.provider import Kubernetes
from lab.providers.kubernetes.warnings import OF_A_CHART, warning_findings
from tests.lab.cloud.autopilot.test_verdicts import WARNED
from tests.lab.providers.calls import Diff, RefusedCallError, Resource, kubernetes
from tests.lab.providers.kubernetes.fake_cluster import FakeCluster, refuse

SPACE = "provider-test"
JOB = Kind("batch/v1", "Job")
THING = Kind("example.com/v1", "Thing")
COMPLETE = {"startTime": "now", "conditions": [{"type": "Complete", "status": "True"}]}
HELMS_SECRET = "Secret/sh.helm.release.v1.pool.v1"
DEPRECATED = "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"
NO_NODE = (
    "Validation failed for ValidatingAdmissionPolicy 'autopilot-no-node-comes' with binding "
    "'autopilot-no-node-comes-templates': no node can be created: 9 GPUs. Ask for 8"
)


def meta(name: str, **annotations: str) -> dict[str, Any]:
    found: dict[str, Any] = {"name": name, "namespace": SPACE}
    if annotations:
        found["annotations"] = {f"pulumi.com/{key}": value for key, value in annotations.items()}
    return found


def config_map(provider: Kubernetes, name: str = "a") -> Resource:
    return Resource(provider, "kubernetes:core/v1:ConfigMap", name)


def data(content: str = "1", name: str = "a") -> dict[str, Any]:
    return {"metadata": meta(name), "data": {"content": content}}


def thing(provider: Kubernetes) -> Resource:
    return Resource(provider, "kubernetes:example.com/v1:Thing", "thing")


def spec(wait_for: str = "", **values: Any) -> dict[str, Any]:
    return {"metadata": meta("thing", **({"waitFor": wait_for} if wait_for else {})), "spec": values}


def job(provider: Kubernetes) -> Resource:
    return Resource(provider, "kubernetes:batch/v1:Job", "job")


def a_job(**annotations: str) -> dict[str, Any]:
    return {"metadata": meta("job", **annotations), "spec": {"template": {"spec": {"containers": []}}}}


def ends(how: str) -> Callable[[Manifest], None]:
    def end(manifest: Manifest) -> None:
        if manifest["kind"] == "Job":
            state = {"type": how, "status": "True", "reason": "Because", "message": "it says so"}
            manifest["status"] = {"startTime": "now", "conditions": [state]}

    return end


def only(kind: str, answer: Callable[[], None]) -> Callable[[Manifest], None]:
    return lambda one: answer() if one["kind"] == kind else None


# Made, changed, deleted


def test_a_renamed_resource_keeps_its_field_manager() -> None:
    cluster = FakeCluster()
    one = config_map(kubernetes(cluster))
    one.create(data())
    one.update(data("2"))
    before = cluster.managers["ConfigMap/a"]
    one.urn = one.urn.replace("::a", "::renamed")
    one.update(data("3"))
    assert cluster.managers["ConfigMap/a"] == before


def test_no_secret_reaches_the_cluster_and_the_state_keeps_it_as_one() -> None:
    cluster = FakeCluster()
    secret = Resource(kubernetes(cluster), "kubernetes:core/v1:Secret", "s")
    secret.create({"metadata": meta("s"), "stringData": Secret({"token": "hush-hush"})})
    assert "hush-hush" not in str(cluster.objects)
    assert secret.outputs["stringData"] == Secret({"token": "hush-hush"})


def test_a_name_is_drawn_once_and_marked() -> None:
    one = config_map(kubernetes(FakeCluster()))
    one.create({"metadata": {"namespace": SPACE}, "data": {}})
    name = one.inputs["metadata"]["name"]
    assert name.startswith("a-")
    assert len(name) == len("a-") + 8
    assert one.check({"metadata": {"namespace": SPACE}, "data": {"b": "1"}})[0]["metadata"]["name"] == name
    replaced = one.diff({"metadata": {"namespace": SPACE}, "data": {"b": "1"}})
    assert replaced.changes == Diff.DIFF_SOME


def test_an_object_that_somebody_deleted_fails_an_update_with_the_way_out() -> None:
    cluster = FakeCluster()
    one = thing(kubernetes(cluster))
    one.create(spec(a=1))
    cluster.objects.clear()
    with pytest.raises(RefusedCallError, match="pulumi refresh"):
        one.update(spec(a=2))


def test_a_finalizer_that_nobody_removes_is_named() -> None:
    cluster = FakeCluster(lambda one: one["metadata"].setdefault("finalizers", ["example.com/keep"]) and None)
    one = config_map(kubernetes(cluster))
    one.create(data())
    with pytest.raises(RefusedCallError, match=r"example.com/keep"):
        one.delete()


@pytest.mark.parametrize("skip", ["true", "false"])
def test_the_end_of_a_job_that_is_not_awaited_is_not_awaited_either(skip: str) -> None:
    cluster = FakeCluster(ends("Complete"))
    one = job(kubernetes(cluster))
    one.create(a_job(skipAwait=skip))
    cluster.objects[JOB, SPACE, "job"]["metadata"]["finalizers"] = ["foregroundDeletion"]
    if skip == "true":
        one.delete()
    else:
        with pytest.raises(RefusedCallError, match="still exists"):
            one.delete()


# Previewed


@pytest.mark.parametrize(
    ("status", "reason", "said"),
    [
        (404, "NotFound", 'namespaces "provider-test" not found'),
        (404, "NotFound", f'{NO_SUCH_KIND} "ConfigMap" in version "v1"'),
        (409, "AlreadyExists", "it already exists"),
        (403, "Forbidden", "no permission"),
    ],
)
def test_what_a_dry_run_cannot_know_is_previewed_as_the_inputs(status: int, reason: str, said: str) -> None:
    one = config_map(kubernetes(FakeCluster(lambda _: refuse(status, reason, said))))
    assert one.create(data(), preview=True) == data()


def test_a_preview_says_what_admission_refuses_and_leaves_unknown_values_alone() -> None:
    one = config_map(kubernetes(FakeCluster(lambda _: refuse(422, "Invalid", "data: too long"))))
    with pytest.raises(RefusedCallError, match="data: too long"):
        one.create(data(), preview=True)
    unknown = {**data(), "data": {"content": UNKNOWN}}
    assert one.create(unknown, preview=True) == unknown


# Compared


def test_replace_unready_replaces_a_job_that_failed_and_no_other() -> None:
    cluster = FakeCluster(ends("Failed"))
    one = job(kubernetes(cluster))
    with pytest.raises(RefusedCallError):
        one.create(a_job(replaceUnready="true"))
    assert one.diff(a_job(replaceUnready="true")).replaces
    cluster.set_status(JOB, "job", SPACE, COMPLETE)
    assert one.diff(a_job(replaceUnready="true")).changes == Diff.DIFF_NONE


# Awaited


def test_a_failed_job_exists_and_says_why() -> None:
    one = job(kubernetes(FakeCluster(ends("Failed"))))
    with pytest.raises(RefusedCallError, match="it says so") as refused:
        one.create(a_job())
    assert '"provider-test/job"' in refused.value.message
    assert one.id == f"{SPACE}/job"
    assert one.provider.observed.failed[one.urn] == refused.value.message


def up_after(seconds: float) -> FakeCluster:
    status = {"conditions": [{"type": "Up", "status": "True"}]}
    cluster = FakeCluster(
        lambda _: threading.Timer(seconds, lambda: cluster.set_status(THING, "thing", SPACE, status)).start()
    )
    return cluster


def test_what_is_ready_later_counts_and_what_pulumi_would_not_have_waited_for_is_told() -> None:
    thing(kubernetes(up_after(0.02))).create(spec("condition=Up"))
    late = thing(kubernetes(up_after(0.1), slack_seconds=5))
    late.create(spec("condition=Up"))
    (finding,) = late.provider.observed.findings
    assert (finding.severity, finding.subject) == ("warning", late.urn)


# Refused


@pytest.mark.parametrize(
    ("status", "said", "tries", "fix"),
    [
        (500, f'Internal error occurred: {UNANSWERED} "validate.rules": no endpoints available', 1, "has a node"),
        (404, f'{NO_SUCH_KIND} "ConfigMap" in version "v1"', 6, "kubectl get crd"),
    ],
)
def test_a_cluster_that_is_not_whole_yet_fails_a_create_as_soon_as_the_provider_gives_up(
    status: int, said: str, tries: int, fix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lab.providers.kubernetes.operations.LEAST_PAUSE_SECONDS", 0.0)
    asked: list[str] = []

    def young(manifest: Manifest) -> None:
        asked.append(manifest["metadata"]["name"])
        refuse(status, "", said)

    one = config_map(kubernetes(FakeCluster(young)))
    with pytest.raises(RefusedCallError):
        one.create(data())
    assert fix in one.provider.observed.findings[0].write
    assert len(asked) == tries


@pytest.mark.parametrize(
    ("status", "reason", "said"),
    [
        (404, "NotFound", 'namespaces "provider-test" not found'),
        (429, "TooManyRequests", "storage is (re)initializing"),
    ],
)
def test_what_a_starting_cluster_refuses_is_tried_again(
    status: int, reason: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lab.providers.kubernetes.operations.BUSY_PAUSE_SECONDS", 0.01)
    monkeypatch.setattr("lab.providers.kubernetes.operations.LEAST_PAUSE_SECONDS", 0.0)
    tries: list[str] = []

    def late(manifest: Manifest) -> None:
        tries.append(manifest["kind"])
        if len(tries) < 3:
            refuse(status, reason, said)

    config_map(kubernetes(FakeCluster(late))).create(data())
    assert len(tries) == 3


def test_an_api_server_that_goes_away_is_not_the_stacks_fault() -> None:
    def gone(_: Manifest) -> None:
        raise ApiUnreachableError("connection refused")

    one = config_map(kubernetes(FakeCluster(gone)))
    with pytest.raises(RefusedCallError, match="unreachable"):
        one.create(data())
    assert one.provider.observed.findings == []


# Warned of


def test_a_warning_of_the_api_server_is_a_finding_on_its_resource_once() -> None:
    cluster = FakeCluster()
    cluster.warnings["ConfigMap/a"] = [DEPRECATED, WARNED, DEPRECATED]
    one = config_map(kubernetes(cluster))
    one.create(data())
    found = one.provider.observed.findings
    assert {(finding.severity, finding.subject) for finding in found} == {("warning", one.urn)}
    assert len(found) == 2
    assert found[0].found.startswith("ConfigMap/a ")
    assert WARNED.endswith(found[1].write)
    one.update(data("2"))
    assert len(one.provider.observed.findings) == 4


def test_a_template_whose_pods_no_node_comes_for_is_an_error_also_in_a_chart() -> None:
    (broken,) = warning_findings("urn", "ConfigMap/a", [NO_NODE])
    assert (broken.severity, broken.write) == ("error", "Ask for 8")
    (of_a_chart,) = warning_findings("urn:release", "Release/pool", [NO_NODE], of_chart=True)
    assert of_a_chart.severity == "error"
    assert of_a_chart.write != OF_A_CHART
    (harmless,) = warning_findings("urn:release", "Release/pool", [DEPRECATED], of_chart=True)
    assert harmless.write == OF_A_CHART


# Found again


def test_a_refresh_keeps_a_workload_that_is_not_ready_as_half_made() -> None:
    cluster = FakeCluster(ends("Complete"))
    one = job(kubernetes(cluster))
    one.create(a_job())
    assert one.read().id == f"{SPACE}/job"
    cluster.set_status(JOB, "job", SPACE, {})
    with pytest.raises(RefusedCallError) as refused:
        one.read()
    assert refused.value.half_made.id == f"{SPACE}/job"


# Charts


def release(cluster: FakeCluster, charts: list[Manifest]) -> Resource:
    return Resource(kubernetes(cluster, charts=lambda _: list(charts)), "kubernetes:helm.sh/v3:Release", "pool")


def chart(*kinds: str) -> list[Manifest]:
    return [
        {"apiVersion": "v1", "kind": kind, "metadata": {"name": kind.lower(), "namespace": SPACE}, "spec": {}}
        for kind in kinds
    ]


def wanted(**given: Any) -> dict[str, Any]:
    return {"name": "pool", "namespace": SPACE, "chart": "oci://example.com/pool", **given}


def test_a_release_installs_in_the_order_of_its_rendering_and_uninstalls_backwards() -> None:
    cluster = FakeCluster()
    one = release(cluster, chart("ServiceAccount", "ConfigMap", "Thing"))
    one.create(wanted())
    assert cluster.applied[0] == cluster.applied.pop() == HELMS_SECRET, "pending at first, deployed at the end"
    assert cluster.applied[1:] == ["ServiceAccount/serviceaccount", "ConfigMap/configmap", "Thing/thing"]
    assert set(cluster.managers.values()) == {"helm"}
    assert one.id == f"{SPACE}/pool"
    assert one.read().id == one.id
    one.delete()
    assert cluster.deleted == ["Thing/thing", "ConfigMap/configmap", "ServiceAccount/serviceaccount", HELMS_SECRET]
    assert one.read().id == ""


def test_an_upgrade_removes_what_the_chart_no_longer_has() -> None:
    cluster, charts = FakeCluster(), chart("ConfigMap", "ServiceAccount")
    one = release(cluster, charts)
    one.create(wanted())
    charts.pop()
    one.update(wanted(values={"a": 1}))
    assert cluster.deleted == ["ServiceAccount/serviceaccount"]


@pytest.mark.parametrize("skip_await", [True, False])
def test_a_release_waits_unless_it_is_told_not_to(skip_await: bool) -> None:
    one = release(FakeCluster(), chart("Service"))
    if skip_await:
        one.create(wanted(skipAwait=True, timeout=60))
        return
    with pytest.raises(RefusedCallError, match=r"^Helm release pool: .*1 min.*cluster address"):
        one.create(wanted(timeout=60))


def test_a_release_that_is_refused_half_way_is_kept_warns_and_is_taken_down_with_the_rest() -> None:
    cluster = FakeCluster(only("Thing", lambda: refuse(403, "Forbidden", "not here")))
    cluster.warnings["ConfigMap/configmap"] = [DEPRECATED]
    one = release(cluster, chart("ConfigMap", "Thing"))
    with pytest.raises(RefusedCallError, match=r"^Helm release pool: Thing provider-test/thing "):
        one.create(wanted())
    assert {finding.severity for finding in one.provider.observed.findings} == {"warning", "error"}
    one.delete()
    assert cluster.deleted == ["ConfigMap/configmap", HELMS_SECRET]


def test_a_release_that_was_killed_is_refused_until_helms_secret_is_deleted() -> None:
    cluster = FakeCluster()
    labels = {"owner": "helm", "name": "pool", "status": "pending-install"}
    metadata = {"name": HELMS_SECRET.partition("/")[2], "namespace": SPACE, "labels": labels}
    cluster.apply({"apiVersion": "v1", "kind": "Secret", "metadata": metadata})
    one = release(cluster, [])
    with pytest.raises(RefusedCallError, match="cannot re-use a name that is still in use"):
        one.create(wanted())
    assert one.id == ""
    assert "delete secret -l owner=helm,name=pool" in one.provider.observed.findings[0].write
    cluster.delete(Kind("v1", "Secret"), metadata["name"], SPACE)
    one.create(wanted())
