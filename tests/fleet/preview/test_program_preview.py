"""Previews of programs that are not this project's: what they need, what they cost, who judges them."""

from __future__ import annotations

import json
import re
import shutil
from functools import cache
from pathlib import Path

import pulumi
import pytest

from facts.cost import LineItem
from facts.names import stack_names
from fleet.cli.project import is_own_program
from fleet.preview.offline import open_stack
from fleet.preview.program_preview import NOT_CHECKED, TAKEN, open_program, preview_program
from fleet.preview.record.recording import ProgramError
from fleet.preview.report.program_report import ProgramReport, program_outline
from fleet.preview.report.recorded_bill import recorded_bill
from settings.derived.figures import figures
from settings.derived.router import router_needs
from settings.problems import SettingsError
from settings.stack import Settings
from tests.docs.examples.recorded import EXAMPLES, recorded
from tests.inventory import ROOT
from tests.support.recorded import recorded_component
from tests.support.settings import make_settings
from tests.support.stacks import recorded_stack
from tests.workloads.args import server_args, space
from workloads.router.router import Router, RouterArgs
from workloads.server.server import Server

OWN = EXAMPLES / "own_program"


@cache
def report() -> ProgramReport:
    return preview_program(OWN, "example")


def test_a_program_is_its_own_by_its_projects_name() -> None:
    assert is_own_program(OWN)
    assert not is_own_program(ROOT)


def test_every_resource_of_the_program_is_in_the_report_with_policies_and_price() -> None:
    assert {one.urn for one in report().changes} == set(report().recording.by_urn)
    assert report().policies.state == "judged"
    assert report().policies.mandatory == ()
    bill = report().priced.bill
    assert bill is not None
    assert {item.id: item.quantity for item in bill.items} == {
        "nodes": 2,
        "autopilot-premium": 2,
        "boot-disk-pd": 220,
        "cluster-fee": 1,
        "hyperdisk-ml-capacity": 32,
        "hyperdisk-ml-throughput": 800,
    }
    outline = program_outline(report(), with_data=True)
    plan = outline.data["plan"]
    assert plan["bill"]["usdPerHour"] == round(bill.usd_per_hour_known, 4) > 2 * 1.0
    assert plan["bill"]["isAtLeast"] is True
    assert any("Throughput" in one for one in plan["unknown"])
    assert set(NOT_CHECKED) <= set(plan["unknown"])
    assert json.dumps(outline.data)


@pytest.mark.parametrize("stack", stack_names(ROOT))
def test_the_price_of_resources_is_that_of_the_stack_file_they_were_made_of(stack: str) -> None:
    """The same program, priced from what it registered and from its settings: nodes, disks, cluster, volumes and NAT."""

    def amounts(items: tuple[LineItem, ...]) -> dict[str, tuple[float, float | None]]:
        of_both = {
            "nodes",
            "cluster-fee",
            "boot-disk-pd",
            "local-ssd",
            "autopilot-premium",
            "nat-gateway",
            "nat-address",
        }
        of_both |= {"hyperdisk-ml-capacity", "hyperdisk-ml-throughput", "load-balancer", "router"}
        return {item.id: (item.quantity, item.unit_price_usd) for item in items if item.id in of_both and item.quantity}

    settings = open_stack(ROOT, stack).settings
    of_settings = figures(settings).bill
    priced = recorded_bill(recorded_stack(stack).resources, None).bill
    assert priced is not None
    assert priced.region == of_settings.region
    stated = {"nodes"} if settings.capacity.usd_per_node_hour is not None else set()
    expected, found = amounts(of_settings.items), amounts(priced.items)
    assert found.keys() == expected.keys()
    for id_, (quantity, price) in expected.items():
        assert found[id_][0] == quantity, id_
        if id_ not in stated and settings.prices.get(id_) is None:
            assert found[id_][1] == price, id_


@pytest.mark.parametrize("kind", ["leastRequest", "prefixAware"])
def test_routers_are_in_the_bill_of_resources_as_in_that_of_the_stack_file_without_a_price(kind: str) -> None:
    router = {"replicas": 3, "cpu": 4} | (
        {"image": f"r.example/r:1@sha256:{'a' * 64}"} if kind == "prefixAware" else {}
    )
    endpoint = {"kind": kind, "router": router}

    def build(settings: Settings, opts: pulumi.ResourceOptions) -> object:
        server = Server("server", server_args(settings), opts)
        needs = router_needs(settings)
        assert needs is not None
        return Router("router", RouterArgs(space=space(settings), server=server, **needs), opts)

    bill = recorded_bill(
        recorded_component(build, server={"replicas": 1}, endpoint=endpoint).resources, "europe-west4"
    ).bill
    assert bill is not None
    expected = figures(make_settings(server={"replicas": 1}, endpoint=endpoint)).bill
    (found,), (wanted,) = ([one for one in items if one.id == "router"] for items in (bill.items, expected.items))
    assert (found.quantity, found.unit_price_usd, found.reason) == (wanted.quantity, None, wanted.reason)
    assert found.name in bill.unknown


def test_what_the_program_does_not_say_has_no_price() -> None:
    nowhere = recorded_bill(recorded("server_on_a_cluster").resources, None)
    assert nowhere.bill is None
    assert "region" in nowhere.unknown[0]
    somewhere = recorded_bill(recorded("server_on_a_cluster").resources, "europe-west4").bill
    assert somewhere is not None
    assert [(item.id, item.quantity) for item in somewhere.items if item.id == "nodes"] == [("nodes", 1)]
    bucket = recorded_bill(recorded("results_and_budget").resources, "europe-west4")
    assert bucket.bill is not None
    assert bucket.bill.items == ()
    assert any("storage.Bucket" in one for one in bucket.unknown)


def copied(tmp_path: Path, **edits: str) -> Path:
    folder = tmp_path / "program"
    shutil.copytree(OWN, folder)
    for name, text in edits.items():
        (folder / name).write_text(text, encoding="utf-8")
    return folder


@pytest.mark.parametrize("name", TAKEN)
def test_a_module_with_a_name_of_a_package_is_one_finding(tmp_path: Path, name: str) -> None:
    folder = copied(tmp_path, **{f"{name}.py": ""})
    with pytest.raises(SettingsError) as refused:
        open_program(folder, "example")
    assert [(one.id, one.subject) for one in refused.value.problems] == [("taken-name", name)]


def test_configuration_is_read_as_the_engine_reads_it(tmp_path: Path) -> None:
    declared = (
        "name: mine\nruntime: python\nconfig: {size: {type: integer, default: 3}, gcp:region: {value: us-central1}}\n"
    )
    stack = "config: {size: 4, gcp:project: p, mine:key: {secure: AAABAHNlY3JldA==}}\nencryptionsalt: v1:x\n"
    folder = copied(tmp_path, **{"Pulumi.yaml": declared, "Pulumi.example.yaml": stack})
    file = open_program(folder, "example").file
    assert (file.project, file.config["mine:size"], file.config["gcp:region"]) == ("mine", "4", "us-central1")
    assert file.secret_keys == {"mine:key"}
    (folder / "Pulumi.other.yaml").write_text("config: {}\n")
    assert open_program(folder, "other").file.config["mine:size"] == "3"
    with pytest.raises(SettingsError) as refused:
        open_program(folder, "missing")
    assert [one.id for one in refused.value.problems] == ["unknown-stack"]
    assert "pulumi stack init missing" in refused.value.problems[0].write
    assert "fleet new" not in refused.value.problems[0].write


def test_a_wrong_argument_names_the_programs_line_and_what_to_write(tmp_path: Path) -> None:
    text = (OWN / "__main__.py").read_text(encoding="utf-8")
    wrong = re.sub(r',\s*machine=find\("g2-standard-12"\)', "", text)
    assert wrong != text
    folder = copied(tmp_path, **{"__main__.py": wrong})
    with pytest.raises(ProgramError) as refused:
        preview_program(folder, "example", ask_policies=False)
    first, second, *_ = refused.value.message.splitlines()
    assert re.fullmatch(r"__main__\.py:[0-9]+", first)
    assert second == "✗ placement.machine is missing"


def test_limits_of_the_program_judge_it_and_its_manifests_are_written(tmp_path: Path) -> None:
    folder = copied(tmp_path)
    (folder / "policy/config/example.json").write_text('{"hourly-cost-above-ceiling": {"maxUsdPerHour": 1.0}}')
    found = preview_program(folder, "example", out=tmp_path / "out")
    assert [one.policy for one in found.policies.mandatory] == ["hourly-cost-above-ceiling"]
    assert program_outline(found).tone == "bad"
    assert any("deployment" in path.name.lower() for path in (tmp_path / "out").rglob("*.yaml"))
