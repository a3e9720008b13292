"""Published advisories: their ranges, their order, and which of them an option rules out."""

from __future__ import annotations

from typing import Any

from facts.advisories import every, of_release, worst
from facts.lessons.serving_advisories import reaching
from facts.releases import CURRENT, number_of
from settings.checks.declared_server import DeclaredServer
from tests.support.rows import each_row
from tests.support.settings import make_settings


def test_what_lets_a_client_in_is_worse_than_what_stops_a_server() -> None:
    assert worst(of_release((0, 18, 1))).harm == "entry"
    assert worst(one for one in of_release((0, 18, 1)) if one.harm != "entry").harm == "answers"


def test_one_without_a_named_fix_counts_for_every_release() -> None:
    (unmended,) = (one for one in every() if one.fixed is None)
    assert of_release(number_of(CURRENT)) == (unmended,)
    assert unmended in of_release((0, 1, 0))
    assert "not published" in unmended.range


@each_row(
    ("version", "engine", "id_", "is_reached"),
    [
        ("0.18.1", {}, "GHSA-v97p-wpxp-px84", False),
        ("0.18.1", {"extraArgs": ["--pipeline-parallel-size=1"]}, "GHSA-v97p-wpxp-px84", False),
        ("0.18.1", {"extraArgs": ["--pipeline-parallel-size=2"]}, "GHSA-v97p-wpxp-px84", True),
        ("0.18.1", {}, "CVE-2026-105758", False),
        ("0.18.1", {}, "CVE-2026-93989", True),
        ("0.33.0", {}, "CVE-2026-93989", False),
    ],
)
def test_an_advisory_reaches_the_releases_and_options_that_it_names(
    version: str, engine: dict[str, Any], id_: str, is_reached: bool
) -> None:
    server = {"replicas": 1, "profile": "serve-chat", "engine": {"version": version, **engine}}
    found = reaching(DeclaredServer(make_settings(server=server)))
    assert (id_ in {one.id for one in found}) is is_reached
