"""What docs/first-up.md lists as failures, played against a simulated Google Cloud, and the commands that it gives for each."""

from __future__ import annotations

from pathlib import Path

import pytest

from fleet.rehearse.providers.cloud import CLUSTER, Kind, Refusal
from tests.guides.lines import ROOT
from tests.guides.world import World, world

pytestmark = pytest.mark.slow

PAGE = (ROOT / "docs" / "first-up.md").read_text(encoding="utf-8")
NETWORK, NAMESPACE = "gcp:compute/network:Network", "kubernetes:core/v1:Namespace"
UP = "pulumi up --stack dev"
REFUSALS: list[tuple[Kind, str, str]] = [
    ("permission", "gcp:serviceaccount/account:Account", "Error 403: Required"),
    ("api", NETWORK, "has not been used in project"),
    ("quota", CLUSTER, "Error 403: Quota"),
    ("taken", "gcp:artifactregistry/repository:Repository", "already exists"),
]


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


def test_an_update_that_google_refuses_is_repeated_when_it_may(tmp_path: Path) -> None:
    with world(tmp_path / "run") as here:
        here.provide("dev", up=False)
        for kind, types, message in REFUSALS:
            here.cloud.refusals[:] = [Refusal(kind=kind, types=types)]
            typed(here, UP, message, code=1)
        here.cloud.refusals.clear()
        typed(here, UP, " created")
        typed(here, UP, " unchanged")


def test_a_resource_that_google_made_for_a_killed_update_is_imported(tmp_path: Path) -> None:
    with world(tmp_path / "run") as here:
        here.provide("dev", up=False)
        killed_while_creating(here, CLUSTER)
        typed(here, UP, "the stack is currently locked by 1 lock(s)", code=1)
        typed(here, "pulumi cancel --stack dev")
        (urn,) = here.pulumi.state("dev").pending
        (cluster,) = (one for one in here.cloud.all() if one.type == CLUSTER)
        typed(
            here,
            "pulumi refresh --import-pending-creates URN --import-pending-creates ID --yes",
            names={"URN": f"'{urn}'", "ID": cluster.id},
        )
        typed(here, UP, " created")
        typed(here, UP, " unchanged")


def test_objects_of_a_killed_update_are_taken_over(tmp_path: Path) -> None:
    with world(tmp_path / "run") as here:
        here.provide("dev", up=False)
        killed_while_creating(here, NAMESPACE)
        typed(here, "pulumi cancel --stack dev")
        typed(here, "pulumi refresh --clear-pending-creates --stack dev")
        assert here.pulumi.state("dev").pending == {}
        typed(here, f"PULUMI_K8S_UPSERT_EXISTING_OBJECTS=true {UP}", " created")
        typed(here, UP, " unchanged")
