"""What docs/first-up.md lists as failures, played against a simulated Google Cloud, and the commands that it gives for each."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.engine.events import Outcome
from lab.providers.google.cloud import CLUSTER, SERVICE
from tests.guides.lines import ROOT
from tests.guides.world import World, world

pytestmark = pytest.mark.slow

PAGE = (ROOT / "docs" / "first-up.md").read_text(encoding="utf-8")
NETWORK, NAMESPACE = "gcp:compute/network:Network", "kubernetes:core/v1:Namespace"
UP = "pulumi up --stack dev"
REFUSALS = {
    SERVICE: "Error 403: Required 'serviceusage.services.enable' permission for 'projects/my-project', forbidden",
    NETWORK: "Error 409: The resource 'projects/my-project/global/networks/dev' already exists, alreadyExists",
    "gcp:compute/subnetwork:Subnetwork": "Error 403: compute.googleapis.com has not been used in project 1 before or it is disabled",
    CLUSTER: "Error 403: Quota 'CPUS_ALL_REGIONS' exceeded. Limit: 0.0 in region europe-west4., quotaExceeded",
}
"""Google's words. Each depends on the one before, so that every `pulumi up` comes further."""


def typed(here: World, line: str, *says: str, code: int = 0, names: dict[str, str] | None = None) -> None:
    """Type a line of the page."""
    assert line in PAGE
    said = here.type(line, names)
    text = said.stdout + said.stderr
    assert said.code == code, text
    for one in says:
        assert one in text


def killed_while_creating(here: World, type_: str) -> None:
    """`kill -9` while this type is created; the cloud finishes it."""
    here.hold.at(type_)
    with here.pulumi.start("up", "dev", "--skip-preview") as update:
        here.hold.until_arrived()
        update.kill()
    here.hold.release()


def interrupted_while_creating(here: World, type_: str) -> Outcome:
    """Ctrl-C while this type is created."""
    here.hold.at(type_)
    with here.pulumi.start("up", "dev", "--skip-preview") as update:
        here.hold.until_arrived()
        update.cancel()
        here.hold.release()
        return update.wait()


def test_an_update_that_google_refuses_is_repeated_when_it_may(tmp_path: Path) -> None:
    with world(tmp_path / "run") as here:
        here.provide("dev", up=False)
        for type_, message in REFUSALS.items():
            here.cloud.refused = {type_: message}
            typed(here, UP, message, code=1)
        here.cloud.refused = {}
        typed(here, UP, " created")
        typed(here, UP, " unchanged")


def test_a_resource_that_google_made_for_a_killed_update_is_imported(tmp_path: Path) -> None:
    with world(tmp_path / "run") as here:
        here.provide("dev", up=False)
        killed_while_creating(here, CLUSTER)
        typed(here, UP, "the stack is currently locked by 1 lock(s)", code=1)
        typed(here, "pulumi cancel --stack dev")
        typed(here, UP, "pending operations", "already exists", code=1)
        (urn,) = here.pulumi.state("dev").pending
        (cluster,) = (one for one in here.cloud.all() if one.type == CLUSTER)
        types, name = urn.split("::")[2:]
        parents, type_ = types.rsplit("$", 1)
        listed = here.type("pulumi stack --show-urns --stack dev").stdout
        (parent,) = {word for word in listed.split() if word.startswith("urn:") and f"::{parents}::" in word}
        typed(
            here,
            "pulumi import TYPE NAME ID --parent parent=PARENT --protect=false --generate-code=false --stack dev",
            "= 1 imported",
            names={"TYPE": type_, "NAME": name, "ID": cluster.id, "PARENT": f"'{parent}'"},
        )
        typed(here, "pulumi refresh --clear-pending-creates --stack dev")
        typed(here, UP, " created")
        typed(here, UP, " unchanged")


def test_the_engines_own_import_of_pending_creates_still_imports_nothing(tmp_path: Path) -> None:
    with world(tmp_path / "run") as here:
        here.provide("dev", up=False)
        killed_while_creating(here, CLUSTER)
        here.type("pulumi cancel --stack dev")
        (urn,) = here.pulumi.state("dev").pending
        (cluster,) = (one for one in here.cloud.all() if one.type == CLUSTER)
        said = here.type(f"pulumi refresh --import-pending-creates '{urn}' --import-pending-creates {cluster.id}")
        assert said.code == 0
        state = here.pulumi.state("dev")
        assert (state.pending, state.get(urn)) == ({}, None), "first-up.md warns of this: mend the page"


def test_an_interrupted_update_ends_well_and_goes_on(tmp_path: Path) -> None:
    with world(tmp_path / "run") as here:
        here.provide("dev", up=False)
        ended = interrupted_while_creating(here, NETWORK)
        assert ended.code != 0
        assert "^C received; cancelling" in PAGE
        assert "^C received; cancelling" in ended.output
        assert here.pulumi.state("dev").pending == {}
        typed(here, UP, " created")


def test_objects_of_a_killed_update_are_taken_over(tmp_path: Path) -> None:
    with world(tmp_path / "run") as here:
        here.provide("dev", up=False)
        killed_while_creating(here, NAMESPACE)
        typed(here, "pulumi cancel --stack dev")
        typed(here, "pulumi refresh --clear-pending-creates --stack dev")
        assert here.pulumi.state("dev").pending == {}
        typed(here, "PULUMI_K8S_UPSERT_EXISTING_OBJECTS=true pulumi up --stack dev", " created")
        typed(here, UP, " unchanged")


def test_a_cluster_in_error_is_named_deleted_and_made_again(tmp_path: Path) -> None:
    with world(tmp_path / "run") as here:
        here.provide("dev", up=False)
        interrupted_while_creating(here, NAMESPACE)
        (cluster,) = (one for one in here.cloud.all() if one.type == CLUSTER)
        here.cloud.change(CLUSTER, cluster.id, controlPlaneEndpointsConfig={})
        typed(here, "pulumi refresh")
        typed(here, UP, "the cluster reports no DNS endpoint", "docs/first-up.md", code=1)
        here.cloud.delete(CLUSTER, cluster.id)
        typed(here, "pulumi refresh", "deleted")
        typed(here, UP, " created")
