"""What the components' arguments refuse by themselves, and that they need nothing of this program's stack files."""

from __future__ import annotations

import ast
import dataclasses
import importlib
from collections.abc import Iterator
from typing import Any

import pytest

from infra.budget import BudgetArgs
from infra.capacity import CalendarReservationArgs
from infra.cluster import ClusterArgs
from infra.network import NetworkArgs
from infra.results_bucket import ResultsBucketArgs
from infra.services import ServicesArgs
from settings.sections.cluster import AuthorizedNetwork, IpEndpoint, Maintenance
from settings.sections.docstrings import field_docs
from tests.infra.recorded import ROOT

PLACE = {"project": "a-project", "region": "europe-west4", "name_prefix": "mine"}
ANY: Any = object()
MODULES = [f"infra.{path.stem}" for path in sorted((ROOT / "infra").glob("*.py")) if path.stem != "__init__"]


def _args_classes() -> Iterator[type]:
    for module in map(importlib.import_module, MODULES):
        for name, one in vars(module).items():
            if name.endswith("Args") and one.__module__ == module.__name__:
                yield one


@pytest.mark.parametrize(
    ("field", "wrong"),
    [
        ("node_range", "10.0.0.1/20"),
        ("pod_range", "ten"),
        ("service_range", "10.0.0.0/24"),  # inside the nodes'
        ("proxy_only_range", "10.64.0.0/23"),  # inside the pods'
        ("nat_min_ports_per_vm", 1_000),
        ("nat_min_ports_per_vm", 32),
        ("nat_max_ports_per_vm", 1_024),  # not above the least
    ],
)
def test_a_network_of_impossible_ranges_or_ports_is_refused_by_the_fields_name(field: str, wrong: Any) -> None:
    with pytest.raises(ValueError, match=rf"^NetworkArgs\.{field} is {wrong!r}"):
        NetworkArgs(**{**PLACE, field: wrong})


@pytest.mark.parametrize(
    ("field", "wrong"),
    [
        ("name", "Not-A-Name"),
        ("release_channel", "NIGHTLY"),
        ("ip_endpoint", IpEndpoint(enabled=True)),
        (
            "ip_endpoint",
            IpEndpoint(enabled=True, authorized_networks=(AuthorizedNetwork(name="all", cidr="0.0.0.0/0"),)),
        ),
        ("maintenance", Maintenance(recurrence="FREQ=WEEKLY;BYDAY=SA")),
    ],
    ids=["name", "channel", "nobody named", "everybody", "too short"],
)
def test_a_cluster_that_gke_would_refuse_or_everybody_could_reach_is_refused(field: str, wrong: Any) -> None:
    with pytest.raises(ValueError, match=rf"^ClusterArgs\.{field}"):
        ClusterArgs(**{"name": "mine", "network": ANY, "nodes": ANY, field: wrong})


@pytest.mark.parametrize(
    ("field", "wrong"),
    [("usd_per_month", 0), ("thresholds", (3.0,)), ("billing_account", "mine")],
)
def test_a_budget_keeps_to_the_limits_of_the_stack_file(field: str, wrong: Any) -> None:
    right = {"billing_account": "01ABCD-234567-89EFAB", "usd_per_month": 1}
    with pytest.raises(ValueError, match=rf"^BudgetArgs\.{field}"):
        BudgetArgs(**{"project": "a-project", "project_number": "1", **right, field: wrong})


@pytest.mark.parametrize(
    ("field", "given"),
    [
        ("nodes", {"nodes": 81}),
        ("duration_days", {"duration_days": 91}),
        ("start_time", {"start_time": "2027-13-41T06:00:00Z"}),
        ("usd_per_node_hour", {"total_usd": 1.0}),
        ("total_usd", {"total_usd": 131_000.0, "usd_per_node_hour": 65.0}),
    ],
    ids=["nodes", "days", "no moment", "no price", "wrong total"],
)
def test_no_window_is_ordered_whose_total_nobody_worked_out(field: str, given: dict[str, Any]) -> None:
    window = {"start_time": "2027-01-04T06:00:00Z", "duration_days": 7, "nodes": 12}
    place = {"project": "a-project", "zone": "europe-west4-b", "reservation": "january"}
    with pytest.raises(ValueError, match=rf"^CalendarReservationArgs\.{field}"):
        CalendarReservationArgs(**{**place, **window, **given})
    assert CalendarReservationArgs(**{**place, **window, "total_usd": 131_040.0, "usd_per_node_hour": 65.0}).total_usd


def test_a_bucket_keeps_results_for_ten_years_at_most() -> None:
    with pytest.raises(ValueError, match=r"^ResultsBucketArgs\.retention_days is 3651"):
        ResultsBucketArgs(**PLACE, retention_days=3_651)


def test_an_api_is_given_by_its_full_name() -> None:
    with pytest.raises(ValueError, match=r"ServicesArgs\.apis has container; .*container\.googleapis\.com"):
        ServicesArgs(project="a-project", apis=["container"])


@pytest.mark.parametrize("args", list(_args_classes()), ids=lambda one: one.__name__)
def test_every_field_of_every_args_class_has_a_docstring_of_its_own(args: type) -> None:
    fields = {one.name for one in dataclasses.fields(args)}
    assert fields - field_docs(args).keys() == set()
    assert "settings" not in fields


@pytest.mark.parametrize("module", MODULES)
def test_no_component_reads_a_stacks_settings(module: str) -> None:
    tree = ast.parse((ROOT / f"{module.replace('.', '/')}.py").read_text(encoding="utf-8"))
    imported = {
        f"{node.module}.{one.name}" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for one in node.names
    }
    assert not {
        one for one in imported if one.startswith(("settings.stack", "settings.load", "settings.derived.figures"))
    }
