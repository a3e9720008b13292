"""Both providers under the real engine, with a cluster in memory: state, order, protection, replacements, kills, drift."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fleet.preview.record.redact import Redactor
from lab.control_plane.api import Kind, Manifest
from lab.providers.google.cloud import Refusal, SimulatedCloud
from lab.stage.update_report import UpReport
from lab.stage.updates import SKIP_PREVIEW, Updates, updating
from tests.lab.providers.kubernetes.fake_cluster import FakeCluster, refuse
from tests.support.simulators.clock import Clock

pytestmark = pytest.mark.slow

PROJECT = "name: fixture\nruntime: python\n"
HEAD = """
import pulumi

version = pulumi.Config().require_int("version")
google = pulumi.CustomResource("gcp:projects/service:Service", "api", {"service": "compute.googleapis.com"})
cluster = pulumi.ProviderResource("kubernetes", "cluster", {"kubeconfig": "{}"})


def options(*needs, **given):
    return pulumi.ResourceOptions(provider=cluster, depends_on=list(needs), **given)


def one(type_, title, content, opts, **metadata):
    type_ = "example.com/v1:Thing" if type_ == "Thing" else type_
    spec = content if isinstance(content, dict) else {"content": content}
    properties = {"metadata": {"name": title, "namespace": "default", **metadata}, "spec": spec}
    return pulumi.CustomResource(f"kubernetes:{type_}", title, properties, opts)

"""
THING = Kind("example.com/v1", "Thing")


class Fixture:
    """A program and its engine."""

    def __init__(self, updates: Updates, cluster: FakeCluster) -> None:
        self.updates, self.cluster = updates, cluster

    def program(self, body: str) -> None:
        """What the program is from now on."""
        (self.updates.pulumi.project.folder / "__main__.py").write_text(HEAD + body)

    def up(self, version: int, *options: str, **given: Any) -> UpReport:
        """`pulumi up` of this version of the program."""
        assert self.updates.pulumi.run("config", "set", "version", str(version), "--stack", "dev").code == 0
        self.cluster.applied.clear()
        self.cluster.deleted.clear()
        return self.updates.up("dev", *(options or (SKIP_PREVIEW,)), **given)


@pytest.fixture
def engine(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Fixture]:
    """Waits end at once in wall time; with a parameter, they last that long."""
    root = tmp_path / "root"
    root.mkdir()
    (root / "Pulumi.yaml").write_text(PROJECT)
    (root / "__main__.py").write_text(HEAD)
    cluster, clock = FakeCluster(), Clock(6000)
    api: Any = cluster
    given: dict[str, Any] = {
        "redactor": Redactor(["hush-hush"]),
        "slack_seconds": getattr(request, "param", 0.05),
        "progress": lambda _: None,
        "cloud": SimulatedCloud(),
    }
    folders = {"folder": tmp_path / "run", "kubeconfig": tmp_path / "none"}
    with updating(root, api, clock, chart_objects=lambda _: [], **folders, **given) as updates:
        assert updates.pulumi.run("stack", "init", "dev").code == 0
        assert updates.pulumi.run("config", "set", "gcp:project", "my-project", "--stack", "dev").code == 0
        yield Fixture(updates, cluster)


def names(urns: Any) -> list[str]:
    return sorted(urn.rpartition("::")[2] for urn in urns)


def test_a_stack_comes_up_in_order_changes_in_place_and_goes_backwards(engine: Fixture) -> None:
    engine.program(
        """
a = one("Thing", "a", version, options())
b = one("Thing", "b", pulumi.Output.secret("hush-hush"), options(a))
one("Thing", "c", 1, options(b))
"""
    )
    first = engine.up(1, "--yes")  # with its preview
    assert first.failed == {}
    assert names(first.created) == ["a", "api", "b", "c"]
    assert engine.cluster.applied == ["Thing/a", "Thing/b", "Thing/c"]
    assert first.began_seconds == min(seconds for urn, seconds in first.started_seconds.items() if "gcp:" not in urn)
    state = (engine.updates.pulumi.folder / "state").rglob("dev.json")
    assert all("hush-hush" not in path.read_text() for path in state)

    assert not engine.up(1).changed
    second = engine.up(2)
    assert names(second.updated) == ["a"]
    assert names(second.unchanged) == ["api", "b", "c"]

    gone = engine.updates.destroy("dev")
    assert gone.failed == {}
    assert engine.cluster.deleted == ["Thing/c", "Thing/b", "Thing/a"]
    assert engine.updates.state("dev").resources == ()


def test_renames_replacements_and_removals(engine: Fixture) -> None:
    engine.program(
        """
if version == 1:
    one("Thing", "kept", 1, options())
    one("Thing", "retained", 1, options(retain_on_delete=True))
else:
    one("Thing", "renamed", 1, options(aliases=[pulumi.Alias(name="kept")]), name="kept")
quick = {"pulumi.com/skipAwait": "true"}
job = {"template": version}
drawn = one("batch/v1:Job", "drawn", job, options(), name=None, annotations=quick)
one("batch/v1:Job", "fixed", job, options(), annotations=quick)
one("Thing", "user", drawn.id, options(drawn))
"""
    )
    first = engine.up(1)
    assert first.failed == {}
    kept = engine.cluster.objects[THING, "default", "kept"]["metadata"]["uid"]
    (former,) = (name for _, _, name in engine.cluster.objects if name.startswith("drawn-"))

    second = engine.up(2)
    assert second.failed == {}
    assert names(second.replaced) == ["drawn", "fixed"]
    assert names(second.updated) == ["user"]
    assert names(second.deleted) == ["retained"]
    assert engine.cluster.objects[THING, "default", "kept"]["metadata"]["uid"] == kept
    assert (THING, "default", "retained") in engine.cluster.objects
    assert engine.cluster.deleted == ["Job/fixed", f"Job/{former}"], "a fixed name goes first, a drawn one last"
    assert not engine.up(2).changed


def test_what_is_protected_stays_whole_with_a_preview_and_alone_without(engine: Fixture) -> None:
    engine.program(
        """
if version == 1:
    one("Thing", "a", 1, options(protect=True))
    one("Thing", "b", 1, options())
"""
    )
    engine.up(1)
    previewed = engine.up(2, "--yes")
    assert any("protect" in text for text in previewed.failed.values())
    assert engine.cluster.deleted == []
    forced = engine.up(2)
    assert any("protect" in text for text in forced.failed.values())
    assert engine.cluster.deleted == ["Thing/b"]
    refused = engine.updates.destroy("dev")
    assert refused.failed
    assert refused.deleted == ()


def test_a_failure_stops_what_depends_on_it_and_the_next_up_waits_again(engine: Fixture) -> None:
    engine.program(
        """
waits = {"annotations": {"pulumi.com/waitFor": "condition=Up"}}
up = one("Thing", "slow", 1, options(), **waits)
bad = one("Thing", "bad", 1, options(up))
one("Thing", "after", 1, options(bad))
"""
    )
    first = engine.up(1)
    assert names(first.failed) == ["slow"]
    assert "condition Up" in next(iter(first.failed.values()))
    assert [finding.subject for finding in first.findings] == list(first.failed)
    engine.cluster.set_status(THING, "slow", "default", {"conditions": [{"type": "Up", "status": "True"}]})
    engine.cluster.on_apply = lambda thing: refuse(422, "Invalid", "no hush-hush") if _named(thing, "bad") else None
    second = engine.up(1)
    assert names(second.updated) == ["slow"]
    assert [text.rpartition(": ")[2] for text in second.failed.values()] == ["no [secret]"]
    engine.cluster.on_apply = lambda _: None
    third = engine.up(1)
    assert names(third.created) == ["after", "bad"]
    assert not engine.up(1).changed


@pytest.mark.parametrize("engine", [120], indirect=True)
def test_a_killed_up_leaves_a_lock_and_a_pending_create_and_an_upsert_mends_it(engine: Fixture) -> None:
    engine.program('one("Thing", "slow", 1, options(), annotations={"pulumi.com/waitFor": "condition=Up"})')
    reports: list[UpReport] = []
    up = threading.Thread(target=lambda: reports.append(engine.up(1)))
    up.start()
    deadline = time.monotonic() + 60
    while (THING, "default", "slow") not in engine.cluster.objects and time.monotonic() < deadline:
        time.sleep(0.05)
    engine.updates.kill()
    up.join(30)
    assert reports[0].failed
    engine.cluster.set_status(THING, "slow", "default", {"conditions": [{"type": "Up", "status": "True"}]})

    assert any("locked" in text for text in engine.up(1).failed.values())
    assert engine.updates.pulumi.unlock("dev").code == 0
    assert names(engine.updates.state("dev").pending) == ["slow"]
    assert any("already exists" in text for text in engine.up(1).failed.values())
    assert engine.updates.refresh("dev", "--clear-pending-creates", SKIP_PREVIEW).succeeded
    assert not engine.updates.state("dev").pending
    mended = engine.up(1, upsert=True)
    assert names(mended.created) == ["slow"]
    assert not engine.up(1).changed


@pytest.mark.parametrize("engine", [120], indirect=True)
def test_ctrl_c_ends_a_wait_and_keeps_the_state(engine: Fixture) -> None:
    engine.program('one("Thing", "slow", 1, options(), annotations={"pulumi.com/waitFor": "condition=Up"})')
    reports: list[UpReport] = []
    up = threading.Thread(target=lambda: reports.append(engine.up(1)))
    up.start()
    deadline = time.monotonic() + 60
    while (THING, "default", "slow") not in engine.cluster.objects and time.monotonic() < deadline:
        time.sleep(0.05)
    engine.updates.cancel()
    up.join(60)
    assert any("cancelled" in text for text in reports[0].failed.values())
    assert "slow" in names(resource.urn for resource in engine.updates.state("dev").resources)


def test_a_refresh_finds_drift_and_an_import_adopts(engine: Fixture) -> None:
    engine.program(
        """
one("Thing", "a", 1, options())
one("Thing", "b", 1, options())
if version == 2:
    one("Thing", "found", 7, options())
"""
    )
    engine.up(1)
    engine.cluster.objects[THING, "default", "a"]["spec"]["content"] = 5
    del engine.cluster.objects[THING, "default", "b"]
    refreshed = engine.updates.refresh("dev", SKIP_PREVIEW)
    assert refreshed.succeeded
    again = engine.up(1)
    assert names(again.updated) == ["a"]
    assert names(again.created) == ["b"]

    engine.cluster.apply(
        {**_thing("found"), "spec": {"content": 7}},
    )
    provider = next(
        resource for resource in engine.updates.state("dev").resources if resource.type == "pulumi:providers:kubernetes"
    )
    found = engine.updates.pulumi.import_(
        "dev",
        "kubernetes:example.com/v1:Thing",
        "found",
        "default/found",
        "--provider",
        f"cluster={provider.urn}",
        "--protect=false",
    )
    assert found.succeeded, found.output
    adopted = engine.up(2)
    assert adopted.failed == {}
    assert "found" in names((*adopted.unchanged, *adopted.updated))


def test_google_refuses_and_the_stack_goes_on_where_it_stopped(engine: Fixture) -> None:
    engine.program(
        """
inputs = {"name": "net", "project": "my-project", "autoCreateSubnetworks": False}
pulumi.CustomResource("gcp:compute/network:Network", "net", inputs, pulumi.ResourceOptions(depends_on=[google]))
"""
    )
    engine.updates.cloud.refusals.append(Refusal(kind="quota", types="gcp:compute/*", what="NETWORKS"))
    refused = engine.up(1)
    assert names(refused.failed) == ["net"]
    assert "Quota 'NETWORKS' exceeded" in next(iter(refused.failed.values()))
    engine.updates.cloud.refusals.clear()
    second = engine.up(1)
    assert names(second.created) == ["net"]
    assert names(second.unchanged) == ["api"]


def _thing(name: str) -> Manifest:
    return {"apiVersion": THING.api_version, "kind": "Thing", "metadata": {"name": name, "namespace": "default"}}


def _named(manifest: Manifest, name: str) -> bool:
    return bool(manifest["metadata"]["name"] == name)
