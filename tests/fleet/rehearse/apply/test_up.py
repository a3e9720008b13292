"""`pulumi up` against a cluster in memory: what is done, in which order, and what is kept when something goes wrong."""

from __future__ import annotations

import base64
import threading
import time
from collections.abc import Callable
from typing import Any

import pulumi
import pulumi_gcp as gcp
import pulumi_kubernetes as k8s
import pytest

from fleet.preview.record.recording import Recording
from fleet.rehearse.api import CONFIG_MAP, JOB, NO_SUCH_KIND, UNANSWERED, ApiUnreachableError, Kind, Manifest
from fleet.rehearse.apply.applier import Applier
from fleet.rehearse.apply.operations import UPSERT, handed_over
from fleet.rehearse.apply.state import AppliedState, ApplyEvent, ApplyReport
from fleet.rehearse.clock import Clock
from fleet.rehearse.results import RehearsalError
from fleet.rehearse.timeline import Timeline
from tests.fleet.preview.programs import TOKEN
from tests.fleet.rehearse.apply.fake_cluster import FakeCluster, refuse
from tests.fleet.rehearse.apply.programs import NAMESPACE, meta, namespace, pod_template, recorded

Options = Callable[..., pulumi.ResourceOptions]
THING = Kind("example.com/v1", "Thing")
HELMS_SECRET = "Secret/sh.helm.release.v1.pool.v1"


def applier(
    cluster: FakeCluster,
    *,
    timeline: Timeline | None = None,
    charts: Callable[[Any], list[Manifest]] = lambda _: [],
    events: list[ApplyEvent] | None = None,
) -> Applier:
    """Ten simulated minutes are a tenth of a second, and no wait lasts longer for the sake of slow controllers."""
    clock = timeline.clock if timeline else Clock(6000)
    return Applier(
        cluster,  # type: ignore[arg-type]
        clock,
        timeline or Timeline(clock),
        chart_objects=charts,
        on_progress=(lambda _: None) if events is None else events.append,
        slack_seconds=0.05,
    )


def names(urns: Any) -> list[str]:
    return sorted(urn.rpartition("::")[2] for urn in urns)


def config_maps(*data: str, **extra: Any) -> Recording:
    """A namespace and config maps in it, each after the last: `a=1` is map `a` with that content."""

    def program(options: Options) -> None:
        last: pulumi.Resource = namespace(options)
        for one in data:
            name, _, content = one.partition("=")
            given = extra.get(name, {})
            last = k8s.core.v1.ConfigMap(
                name, metadata=meta(name), data={"content": content}, opts=options(depends_on=[last], **given)
            )

    return recorded(program)


def a_job(**extra: Any) -> Recording:
    def program(options: Options) -> None:
        space = namespace(options)
        job = k8s.batch.v1.Job(
            "job",
            metadata=meta("job", **extra),
            spec={"template": pod_template("job", restartPolicy="Never")},
            opts=options(depends_on=[space]),
        )
        k8s.core.v1.ConfigMap("after", metadata=meta("after"), data={}, opts=options(depends_on=[job]))

    return recorded(program)


def ends(type_: str) -> Callable[[Manifest], None]:
    """A cluster in which every Job ends at once with this condition."""

    def on_apply(one: Manifest) -> None:
        if one["kind"] == "Job":
            condition = {"type": type_, "status": "True", "reason": "Because", "message": "it says so"}
            one["status"] = {"startTime": "now", "conditions": [condition]}

    return on_apply


COMPLETE = {"startTime": "now", "conditions": [{"type": "Complete", "status": "True"}]}


# The first time, and the second


def test_everything_is_created_in_order_and_a_second_up_does_nothing() -> None:
    cluster = FakeCluster()
    recording = config_maps("a=1", "b=2")
    first = applier(cluster).up(recording)
    assert cluster.applied == [f"Namespace/{NAMESPACE}", "ConfigMap/a", "ConfigMap/b"]
    assert names(first.created) == ["a", "b", "cluster", "namespace"]
    assert not first.failed

    second = applier(cluster).up(recording, first.state)
    assert len(cluster.applied) == 3
    assert not second.changed
    assert names(second.unchanged) == ["a", "b", "cluster", "namespace"]


def test_what_is_created_belongs_to_the_provider_and_with_the_first_update_to_its_resource() -> None:
    cluster = FakeCluster()
    first = applier(cluster).up(scaled(1))
    assert cluster.managers == {"Thing/thing": "pulumi-kubernetes"}
    live = cluster.objects[THING, "default", "thing"]
    live["metadata"]["managedFields"] = [
        {"manager": "pulumi-kubernetes", "operation": "Update", "fieldsV1": {"f:spec": {"f:image": {}}}},
        {"manager": "gke", "operation": "Update", "subresource": "status", "fieldsV1": {"f:status": {}}},
    ]
    owned: list[Any] = []
    cluster.on_apply = lambda _: owned.extend(cluster.objects[THING, "default", "thing"]["metadata"]["managedFields"])
    applier(cluster).up(scaled(1, image="2"), first.state)
    manager = cluster.managers["Thing/thing"]
    assert manager.startswith("pulumi-kubernetes-")
    assert [(one["manager"], one["operation"]) for one in owned] == [("gke", "Update"), (manager, "Apply")]


def test_fields_that_are_handed_over_join_those_the_manager_has() -> None:
    def entry(manager: str, operation: str, **more: Any) -> dict[str, Any]:
        return {"manager": manager, "operation": operation, **more}

    scale = entry("kubectl", "Update", subresource="scale", fieldsV1={"f:spec": {"f:replicas": {}}})
    fields = [
        entry("mine", "Apply", fieldsV1={"f:spec": {"f:a": {}}}),
        scale,
        entry("kubectl-edit", "Update", fieldsV1={"f:spec": {"f:b": {}}, "f:data": {}}),
    ]
    both = {"f:spec": {"f:a": {}, "f:b": {}}, "f:data": {}}
    assert handed_over(fields, "mine") == [scale, entry("mine", "Apply", fieldsV1=both)]
    assert handed_over([scale], "mine") == [scale]


def test_times_follow_the_graph() -> None:
    report = applier(FakeCluster()).up(config_maps("a=1", "b=2"))
    urn = {one.rpartition("::")[2]: one for one in report.created}
    assert report.finished_seconds[urn["a"]] <= report.started_seconds[urn["b"]]
    assert all(seconds >= 0 for seconds in report.duration_seconds.values())


def test_google_cloud_counts_as_there() -> None:
    def program(options: Options) -> None:
        network = gcp.compute.Network("network", name="network")
        k8s.core.v1.ConfigMap("after", metadata=meta("after", "default"), data={}, opts=options(depends_on=[network]))

    timeline = Timeline(Clock(6000))
    cluster = FakeCluster()
    report = applier(cluster, timeline=timeline).up(recorded(program))
    assert names(report.created) == ["after", "cluster", "network"]
    assert cluster.applied == ["ConfigMap/after"]
    told = [moment.text for moment in timeline.moments() if moment.subject == "Google Cloud"]
    assert [text.split()[0] for text in told] == ["1"]


def test_no_secret_reaches_the_cluster() -> None:
    def program(options: Options) -> None:
        token = pulumi.Config("fixture").require_secret("token")
        k8s.core.v1.Secret("secret", metadata=meta("s", "default"), string_data={"token": token}, opts=options())
        k8s.core.v1.ConfigMap("leak", metadata=meta("leak", "default"), data={"copy": token}, opts=options())

    cluster = FakeCluster()
    applier(cluster).up(recorded(program))
    text = str(cluster.objects)
    assert TOKEN not in text
    assert base64.b64encode(TOKEN.encode()).decode() not in text
    secret = cluster.get(Kind("v1", "Secret"), "s", "default")
    assert secret is not None
    assert secret["stringData"] == {"token": "[secret]"}


def test_the_providers_namespace_is_where_things_go_that_name_none() -> None:
    def program() -> None:
        cluster = k8s.Provider("cluster", kubeconfig="{}", namespace="team")
        options = pulumi.ResourceOptions(provider=cluster)
        k8s.core.v1.ConfigMap("one", metadata={"name": "one"}, data={}, opts=options)

    from tests.fleet.preview.programs import run

    cluster = FakeCluster()
    applier(cluster).up(run(program))
    assert cluster.get(CONFIG_MAP, "one", "team") is not None


def test_a_preview_cannot_be_applied() -> None:
    recording = recorded(lambda options: None, mode="preview")  # noqa: ARG005
    with pytest.raises(RehearsalError, match="known-mode"):
        applier(FakeCluster()).up(recording)


def test_progress_is_told_from_start_to_end() -> None:
    events: list[ApplyEvent] = []
    applier(FakeCluster(), events=events).up(config_maps("a=1"))
    assert [(one.name, one.phase) for one in events] == [
        (f"Namespace/{NAMESPACE}", "started"),
        (f"Namespace/{NAMESPACE}", "done"),
        ("ConfigMap/a", "started"),
        ("ConfigMap/a", "done"),
    ]
    assert (events[-1].done, events[-1].total) == (3, 3)


# Changes


def test_an_update_applies_only_what_changed() -> None:
    def program(label: str) -> Recording:
        def inner(options: Options) -> None:
            for name in ("same", "other"):
                labels = {"v": label if name == "other" else "0"}
                k8s.core.v1.ServiceAccount(name, metadata={**meta(name, "default"), "labels": labels}, opts=options())

        return recorded(inner)

    cluster = FakeCluster()
    first = applier(cluster).up(program("1"))
    cluster.applied.clear()
    second = applier(cluster).up(program("2"), first.state)
    assert cluster.applied == ["ServiceAccount/other"]
    assert names(second.updated) == ["other"]


def test_a_replaced_object_of_a_fixed_name_goes_first() -> None:
    cluster = FakeCluster()
    first = applier(cluster).up(config_maps("a=1"))
    done: list[str] = []
    cluster.on_apply = lambda one: done.append(f"gone first: {cluster.deleted}" if one["kind"] == "ConfigMap" else "")
    second = applier(cluster).up(config_maps("a=2"), first.state)
    assert names(second.replaced) == ["a"]
    assert done == ["gone first: ['ConfigMap/a']"]


def auto_named(content: str) -> Recording:
    def program(options: Options) -> None:
        settings = k8s.core.v1.ConfigMap(
            "settings", metadata={"namespace": "default"}, data={"v": content}, opts=options()
        )
        k8s.apiextensions.CustomResource(
            "user",
            api_version="example.com/v1",
            kind="Thing",
            metadata=meta("user", "default"),
            spec={"uses": settings.metadata.name},
            opts=options(),
        )

    return recorded(program)


def test_a_replaced_object_without_a_name_of_its_own_comes_first_and_who_uses_it_follows() -> None:
    cluster = FakeCluster()
    first = applier(cluster).up(auto_named("1"))
    (old,) = [name for kind, _, name in cluster.objects if kind == CONFIG_MAP]
    cluster.applied.clear()
    second = applier(cluster).up(auto_named("2"), first.state)
    (new,) = [name for kind, _, name in cluster.objects if kind == CONFIG_MAP]
    assert new != old
    assert cluster.applied == [f"ConfigMap/{new}", "Thing/user"]
    assert cluster.deleted == [f"ConfigMap/{old}"]
    assert names(second.replaced) == ["settings"]
    assert names(second.updated) == ["user"]
    user = cluster.get(THING, "user", "default")
    assert user is not None
    assert user["spec"]["uses"] == new

    third = applier(cluster).up(auto_named("2"), second.state)
    assert not third.changed


def told_of_a_secret(key: str) -> Recording:
    """A Secret, and an object that has the Secret's uid, as a pod template has that of a key it reads once."""

    def program(options: Options) -> None:
        secret = k8s.core.v1.Secret("key", metadata=meta("key", "default"), string_data={"key": key}, opts=options())
        k8s.apiextensions.CustomResource(
            "reader",
            api_version="example.com/v1",
            kind="Thing",
            metadata=meta("reader", "default"),
            spec={"secret": "key", "version": secret.metadata.uid},
            opts=options(),
        )
        k8s.apiextensions.CustomResource(
            "by-name",
            api_version="example.com/v1",
            kind="Thing",
            metadata=meta("by-name", "default"),
            spec={"secret": secret.metadata.name},
            opts=options(),
        )

    return recorded(program)


def test_who_has_the_uid_of_a_replaced_object_is_told_the_new_one_and_who_has_its_name_is_left_alone() -> None:
    cluster = FakeCluster()

    def version() -> str:
        reader = cluster.get(THING, "reader", "default")
        secret = cluster.get(Kind("v1", "Secret"), "key", "default")
        assert reader is not None
        assert secret is not None
        assert reader["spec"]["version"] == secret["metadata"]["uid"]
        return str(reader["spec"]["version"])

    first = applier(cluster).up(told_of_a_secret("one"))
    before = version()
    second = applier(cluster).up(told_of_a_secret("two"), first.state)
    assert (names(second.replaced), names(second.updated)) == (["key"], ["reader"])
    assert version() != before
    assert not applier(cluster).up(told_of_a_secret("two"), second.state).changed


def test_what_the_program_no_longer_has_goes_at_the_end_dependents_first() -> None:
    cluster = FakeCluster()
    first = applier(cluster).up(config_maps("a=1", "b=1", "c=1"))
    second = applier(cluster).up(config_maps("new=1"), first.state)
    assert cluster.deleted == ["ConfigMap/c", "ConfigMap/b", "ConfigMap/a"]
    assert names(second.deleted) == ["a", "b", "c"]
    assert names(second.created) == ["new"]
    assert not applier(cluster).up(config_maps("new=1"), second.state).changed


def test_retained_objects_are_only_forgotten() -> None:
    cluster = FakeCluster()
    first = applier(cluster).up(config_maps("a=1", "b=1", a={"retain_on_delete": True}))
    second = applier(cluster).up(config_maps(), first.state)
    assert names(second.deleted) == ["a", "b"]
    assert cluster.deleted == ["ConfigMap/b"]
    assert cluster.get(CONFIG_MAP, "a", NAMESPACE) is not None


def test_protected_resources_are_not_deleted_and_nothing_else_is() -> None:
    cluster = FakeCluster()
    first = applier(cluster).up(config_maps("a=1", "b=1", a={"protect": True}))
    second = applier(cluster).up(config_maps(), first.state)
    assert cluster.deleted == []
    (text,) = second.failed.values()
    assert "pulumi state unprotect" in text
    assert names(second.state.resources) == names(first.state.resources)


def test_protected_resources_are_not_replaced() -> None:
    cluster = FakeCluster()
    first = applier(cluster).up(config_maps("a=1", a={"protect": True}))
    second = applier(cluster).up(config_maps("a=2", a={"protect": True}), first.state)
    assert names(second.failed) == ["a"]
    assert cluster.deleted == []


def test_an_alias_keeps_the_object() -> None:
    cluster = FakeCluster()

    def program(name: str, **given: Any) -> Recording:
        def inner(options: Options) -> None:
            k8s.core.v1.ConfigMap(name, metadata=meta("kept", "default"), data={}, opts=options(**given))

        return recorded(inner)

    first = applier(cluster).up(program("before"))
    second = applier(cluster).up(program("after", aliases=[pulumi.Alias(name="before")]), first.state)
    assert not second.changed
    assert names(second.state.resources) == ["after", "cluster", "test"] or "before" not in names(
        second.state.resources
    )
    assert not applier(cluster).up(program("after"), second.state).changed


def scaled(replicas: int, **given: Any) -> Recording:
    def program(options: Options) -> None:
        k8s.apiextensions.CustomResource(
            "thing",
            api_version="example.com/v1",
            kind="Thing",
            metadata=meta("thing", "default"),
            spec={"replicas": replicas, "image": given.get("image", "1")},
            opts=options(ignore_changes=["spec.replicas"]),
        )

    return recorded(program)


def test_an_ignored_field_keeps_its_live_value() -> None:
    cluster = FakeCluster()
    first = applier(cluster).up(scaled(1))
    live = cluster.objects[THING, "default", "thing"]
    live["spec"]["replicas"] = 5
    assert not applier(cluster).up(scaled(2), first.state).changed
    second = applier(cluster).up(scaled(2, image="2"), first.state)
    assert names(second.updated) == ["thing"]
    assert cluster.objects[THING, "default", "thing"]["spec"] == {"replicas": 5, "image": "2"}


def test_an_ignored_field_that_somebody_else_owns_is_left_out() -> None:
    cluster = FakeCluster()
    first = applier(cluster).up(scaled(1))
    live = cluster.objects[THING, "default", "thing"]
    live["metadata"]["managedFields"] = [{"manager": "kubectl", "fieldsV1": {"f:spec": {"f:replicas": {}}}}]
    applier(cluster).up(scaled(2, image="2"), first.state)
    assert cluster.objects[THING, "default", "thing"]["spec"] == {"image": "2"}


# Failures


def test_a_failed_job_stops_what_depends_on_it_and_says_why() -> None:
    cluster = FakeCluster(ends("Failed"))
    report = applier(cluster).up(a_job())
    assert names(report.failed) == ["job"]
    assert names(report.skipped) == ["after"]
    (text,) = report.failed.values()
    assert '"apply-test/job"' in text
    assert "[Because] it says so" in text
    assert report.state.resources[next(iter(report.failed))].trouble


def test_the_next_up_waits_again_for_what_never_became_ready() -> None:
    cluster = FakeCluster(ends("Failed"))
    first = applier(cluster).up(a_job())
    cluster.set_status(JOB, "job", NAMESPACE, COMPLETE)
    cluster.applied.clear()
    second = applier(cluster).up(a_job(), first.state)
    assert names(second.updated) == ["job"]
    assert names(second.created) == ["after"]
    assert cluster.applied == ["ConfigMap/after"]
    assert not applier(cluster).up(a_job(), second.state).changed


def test_replace_unready_makes_a_failed_job_anew() -> None:
    cluster = FakeCluster(ends("Failed"))
    first = applier(cluster).up(a_job(replaceUnready="true"))
    cluster.on_apply = ends("Complete")
    second = applier(cluster).up(a_job(replaceUnready="true"), first.state)
    assert names(second.replaced) == ["job"]
    assert cluster.deleted == ["Job/job"]
    assert not second.failed
    assert not applier(cluster).up(a_job(replaceUnready="true"), second.state).changed


def things(wait_for: str, create: str | None = None) -> Recording:
    def program(options: Options) -> None:
        k8s.apiextensions.CustomResource(
            "thing",
            api_version="example.com/v1",
            kind="Thing",
            metadata=meta("thing", "default", waitFor=wait_for),
            opts=options(custom_timeouts=pulumi.CustomTimeouts(create=create)),
        )

    return recorded(program)


def test_what_never_becomes_ready_times_out_with_a_finding() -> None:
    cluster = FakeCluster()
    report = applier(cluster).up(things("condition=Up"))
    (text,) = report.failed.values()
    assert "10 min" in text
    assert "condition Up" in text
    (finding,) = report.findings
    assert finding.severity == "error"
    assert "status" in finding.message
    assert "controller" in finding.fix


def test_a_timeout_of_the_programs_own_is_honoured() -> None:
    report = applier(FakeCluster()).up(things("condition=Up", create="30s"))
    assert "timed out after 0.5 min" in next(iter(report.failed.values()))


def up_after(seconds: float) -> FakeCluster:
    """A cluster in which the thing is Up so much wall time after it was applied."""
    status = {"conditions": [{"type": "Up", "status": "True"}]}
    cluster = FakeCluster(
        lambda _: threading.Timer(seconds, lambda: cluster.set_status(THING, "thing", "default", status)).start()
    )
    return cluster


def test_a_condition_that_comes_later_is_seen() -> None:
    assert not applier(up_after(0.02)).up(things("condition=Up")).failed


def test_what_is_ready_only_after_pulumi_gave_up_counts_and_is_told() -> None:
    clock = Clock(60_000)
    patient = Applier(
        up_after(0.1),  # type: ignore[arg-type]
        clock,
        Timeline(clock),
        chart_objects=lambda _: [],
        slack_seconds=5,
    )
    report = patient.up(things("condition=Up"))
    assert not report.failed
    (finding,) = report.findings
    assert finding.severity == "warning"
    assert finding.subject.endswith("::thing")


def test_a_refused_object_fails_with_the_servers_words() -> None:
    def refuses(one: Manifest) -> None:
        if one["kind"] == "ConfigMap":
            refuse(422, "Invalid", "data: too long")

    report = applier(FakeCluster(refuses)).up(config_maps("a=1", "b=1"))
    (text,) = report.failed.values()
    assert "ConfigMap apply-test/a" in text
    assert text.endswith("data: too long")
    assert names(report.skipped) == ["b"]
    assert [one.severity for one in report.findings] == ["error"]
    assert "a" not in names(report.state.resources)


def test_a_conflict_says_whose_fields_they_are() -> None:
    report = applier(FakeCluster(lambda _: refuse(409, "Conflict", 'conflict with "kubectl": .data'))).up(config_maps())
    (text,) = report.failed.values()
    assert 'conflict with "kubectl": .data' in text
    assert "pulumi.com/patchForce" in report.findings[0].fix


def test_a_namespace_that_is_not_there_yet_is_tried_again() -> None:
    tries: list[str] = []

    def late(one: Manifest) -> None:
        if one["kind"] == "ConfigMap" and len(tries) < 2:
            tries.append("not yet")
            refuse(404, "NotFound", 'namespaces "apply-test" not found')

    report = applier(FakeCluster(late)).up(config_maps("a=1"))
    assert not report.failed
    assert len(tries) == 2


@pytest.mark.parametrize(
    ("status", "said", "tries", "fix"),
    [
        (
            500,
            f'Internal error occurred: {UNANSWERED} "validate.rules": no endpoints available',
            1,
            "has a node",
        ),
        (404, f'{NO_SUCH_KIND} "ConfigMap" in version "v1"', 6, "kubectl get crd"),
    ],
)
def test_a_cluster_that_is_not_whole_yet_fails_a_create_as_soon_as_the_provider_gives_up(
    status: int, said: str, tries: int, fix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fleet.rehearse.apply.operations.LEAST_PAUSE_SECONDS", 0.0)
    asked: list[str] = []

    def young(one: Manifest) -> None:
        if one["kind"] == "ConfigMap":
            asked.append(one["metadata"]["name"])
            refuse(status, "", said)

    report = applier(FakeCluster(young)).up(config_maps("a=1"))
    assert said in next(iter(report.failed.values()))
    assert fix in report.findings[0].fix
    assert len(asked) == tries


def test_a_server_that_is_just_starting_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fleet.rehearse.apply.operations.BUSY_PAUSE_SECONDS", 0.01)
    tries: list[str] = []

    def busy(one: Manifest) -> None:
        tries.append(one["kind"])
        if len(tries) < 3:
            refuse(429, "TooManyRequests", "storage is (re)initializing")

    assert not applier(FakeCluster(busy)).up(config_maps()).failed
    assert tries == ["Namespace"] * 3


def test_an_api_server_that_goes_away_leaves_a_part_and_the_next_up_does_the_rest() -> None:
    cluster = FakeCluster()

    def gone(one: Manifest) -> None:
        if one["metadata"]["name"] == "b":
            raise ApiUnreachableError("connection refused")

    cluster.on_apply = gone
    recording = config_maps("a=1", "b=1", "c=1")
    first = applier(cluster).up(recording)
    assert names(first.failed) == ["b"]
    assert "unreachable" in next(iter(first.failed.values()))
    assert first.findings == ()  # it says nothing about the stack
    assert names(first.skipped) == ["c"]

    cluster.on_apply = lambda _: None
    second = applier(cluster).up(recording, first.state)
    assert names(second.created) == ["b", "c"]
    assert not applier(cluster).up(recording, second.state).changed


def test_an_object_that_is_there_but_not_in_the_state_is_refused_and_taken_over_only_by_an_upsert() -> None:
    cluster = FakeCluster()
    recording = config_maps("a=1")
    applier(cluster).up(recording)
    uids = {key: one["metadata"]["uid"] for key, one in cluster.objects.items()}
    refused = applier(cluster).up(recording)
    assert "already exists" in next(iter(refused.failed.values()))
    assert UPSERT in refused.findings[0].fix
    taken = applier(cluster).up(recording, refused.state, upsert_existing=True)
    assert not taken.failed
    assert {key: one["metadata"]["uid"] for key, one in cluster.objects.items()} == uids
    assert not applier(cluster).up(recording, taken.state).changed


def killed_while_it_waits(cluster: FakeCluster, recording: Recording, waits_for: str, **given: Any) -> AppliedState:
    """The state after a `pulumi up` that was killed when it had begun to wait for this."""
    found: list[ApplyReport] = []
    waiting = threading.Event()
    clock = Clock(1)

    def told(event: ApplyEvent) -> None:
        if event.phase == "waiting" and event.name == waits_for:
            waiting.set()

    charts = given.get("charts", lambda _: [])
    slow = Applier(cluster, clock, Timeline(clock), chart_objects=charts, on_progress=told)  # type: ignore[arg-type]
    thread = threading.Thread(target=lambda: found.append(slow.up(recording)))
    thread.start()
    assert waiting.wait(20)
    slow.kill()
    thread.join(20)
    assert not thread.is_alive()
    assert not found[0].failed
    return found[0].state


def test_a_killed_run_leaves_an_object_and_a_pending_create_and_an_upsert_mends_it() -> None:
    cluster = FakeCluster()
    state = killed_while_it_waits(cluster, a_job(), "Job/job")
    assert cluster.get(JOB, "job", NAMESPACE) is not None
    assert names(state.pending) == ["job"]
    assert "job" not in names(state.resources)

    cluster.set_status(JOB, "job", NAMESPACE, COMPLETE)
    refused = applier(cluster).up(a_job(), state)
    assert names(refused.failed) == ["job"]
    assert "already exists" in next(iter(refused.failed.values()))
    assert names(refused.state.pending) == ["job"], "only a refresh clears it"

    cleared = refused.state.without_pending_creates()
    mended = applier(cluster).up(a_job(), cleared, upsert_existing=True)
    assert not mended.failed
    assert not mended.state.pending
    assert names(mended.created) == ["after", "job"]
    assert not applier(cluster).up(a_job(), mended.state).changed


def test_cancelled_waiting_ends_and_the_state_is_kept() -> None:
    cluster = FakeCluster()
    clock = Clock(1)
    slow = Applier(cluster, clock, Timeline(clock), chart_objects=lambda _: [])  # type: ignore[arg-type]
    found: list[ApplyReport] = []
    thread = threading.Thread(target=lambda: found.append(slow.up(things("condition=Up"))))
    thread.start()
    while not cluster.applied:
        time.sleep(0.01)
    slow.cancel()
    thread.join(5)
    assert not thread.is_alive()
    assert "cancelled" in next(iter(found[0].failed.values()))
    assert found[0].findings == ()
    assert "thing" in names(found[0].state.resources)


def test_an_object_that_somebody_deleted_fails_an_update_with_the_way_out() -> None:
    cluster = FakeCluster()
    first = applier(cluster).up(scaled(1))
    del cluster.objects[THING, "default", "thing"]
    second = applier(cluster).up(scaled(1, image="2"), first.state)
    assert "pulumi refresh" in next(iter(second.failed.values()))


# Charts


def release(**given: Any) -> Recording:
    def program(options: Options) -> None:
        k8s.helm.v3.Release(
            "pool", name="pool", namespace="default", chart="oci://example.com/pool", opts=options(), **given
        )

    return recorded(program)


def chart(*kinds: str) -> list[Manifest]:
    return [
        {"apiVersion": "v1", "kind": kind, "metadata": {"name": kind.lower(), "namespace": "default"}, "spec": {}}
        for kind in kinds
    ]


def test_a_release_installs_in_the_order_of_its_rendering_and_uninstalls_backwards() -> None:
    cluster = FakeCluster()
    charts = chart("ServiceAccount", "ConfigMap", "Thing")
    report = applier(cluster, charts=lambda _: charts).up(release())
    assert cluster.applied[0] == cluster.applied.pop() == HELMS_SECRET, "pending at first, deployed at the end"
    assert cluster.applied[1:] == ["ServiceAccount/serviceaccount", "ConfigMap/configmap", "Thing/thing"]
    assert set(cluster.managers.values()) == {"helm"}
    assert not report.failed
    applier(cluster, charts=lambda _: charts).destroy(report.state)
    assert cluster.deleted == ["Thing/thing", "ConfigMap/configmap", "ServiceAccount/serviceaccount", HELMS_SECRET]


def test_an_upgrade_removes_what_the_chart_no_longer_has() -> None:
    cluster = FakeCluster()
    first = applier(cluster, charts=lambda _: chart("ConfigMap", "ServiceAccount")).up(release())
    second = applier(cluster, charts=lambda _: chart("ConfigMap")).up(release(values={"a": 1}), first.state)
    assert names(second.updated) == ["pool"]
    assert cluster.deleted == ["ServiceAccount/serviceaccount"]


@pytest.mark.parametrize("skip_await", [True, False])
def test_a_release_waits_unless_it_is_told_not_to(skip_await: bool) -> None:
    services = chart("Service")
    report = applier(FakeCluster(), charts=lambda _: services).up(release(skip_await=skip_await, timeout=60))
    if skip_await:
        assert not report.failed
        return
    (text,) = report.failed.values()
    assert text.startswith("Helm release pool: ")
    assert "1 min" in text
    assert "cluster address" in text


def test_a_release_that_is_refused_half_way_is_taken_down_with_the_rest() -> None:
    cluster = FakeCluster(lambda one: refuse(403, "Forbidden", "not here") if one["kind"] == "Thing" else None)
    charts = chart("ConfigMap", "Thing")
    report = applier(cluster, charts=lambda _: charts).up(release())
    assert next(iter(report.failed.values())).startswith("Helm release pool: Thing default/thing ")
    applier(cluster, charts=lambda _: charts).destroy(report.state)
    assert cluster.deleted == ["ConfigMap/configmap", HELMS_SECRET]


def test_a_killed_installation_stays_pending_until_helms_secret_is_deleted() -> None:
    cluster = FakeCluster()
    charts = chart("Service")
    state = killed_while_it_waits(cluster, release(), "Release/pool", charts=lambda _: charts)
    secret = next(one for (kind, _, _), one in cluster.objects.items() if kind.kind == "Secret")
    assert secret["metadata"]["labels"] == {"owner": "helm", "name": "pool", "status": "pending-install"}

    charts.clear()
    refused = applier(cluster, charts=lambda _: charts).up(release(), state, upsert_existing=True)
    assert next(iter(refused.failed.values())).endswith("cannot re-use a name that is still in use")
    assert "delete secret -l owner=helm,name=pool" in refused.findings[0].fix
    assert "pool" not in names(refused.state.resources)

    cluster.delete(Kind("v1", "Secret"), secret["metadata"]["name"], "default")
    assert not applier(cluster, charts=lambda _: charts).up(release(), refused.state).failed
