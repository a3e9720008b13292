"""The program as it is passes; spoilt in one place, it gives the one finding that says so."""

from __future__ import annotations

import copy
import dataclasses
import json
import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import hypothesis
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from preview.offline import open_stack, record_stack
from preview.recording import Recording
from preview.values import UNKNOWN, Secret, reveal
from rehearsal.google_cloud.check import check, check_inputs
from rehearsal.google_cloud.complaint import Complaint
from rehearsal.google_cloud.documents import Document
from rehearsal.google_cloud.mapping import TypeMapping, table
from rehearsal.google_cloud.request import build
from rehearsal.google_cloud.schema_check import check_request
from settings.stack_file import stack_names
from tests.infra.recorded import recorded
from tests.rehearsal.google_cloud.samples import IP_ENDPOINT, everything, full_name, inputs_of, spoilt

ROOT = Path(__file__).resolve().parents[3]
SUBNETWORK, CLUSTER, BUCKET = "subnetwork:Subnetwork", "cluster:Cluster", "bucket:Bucket"


@cache
def stack(name: str) -> Recording:
    return record_stack(open_stack(ROOT, name), "known")


@pytest.mark.parametrize("name", stack_names(ROOT))
def test_google_has_nothing_against_the_stack(name: str) -> None:
    assert check(stack(name)) == ()


def test_google_has_nothing_against_a_stack_that_makes_everything() -> None:
    assert check(everything()) == ()
    made = {one.type for one in everything().resources if one.type.startswith("gcp:")}
    assert made == table().types.keys()


@pytest.mark.parametrize(
    "settings",
    [
        {"cluster": IP_ENDPOINT},
        {"cluster": {"releaseChannel": "STABLE", "deletionProtection": False}},
        {"network": {"proxyOnly": {"enabled": True}, "nat": {"minPortsPerVm": 64, "maxPortsPerVm": 65_536}}},
        {"stack": "x" * 100, "project": "a" * 30},
        {"stack": "Prod.EU_2"},
    ],
)
def test_google_has_nothing_against_other_settings(settings: dict[str, Any]) -> None:
    assert check(recorded(**settings)) == ()


def test_what_an_engine_does_not_know_yet_is_not_judged() -> None:
    assert check(recorded("preview")) == ()


MISTAKES = [
    pytest.param(one, id=f"{one['type'].partition(':')[0]} {one['at']} {str(one.get('value', 'gone'))[:30]}")
    for group in yaml.safe_load((Path(__file__).parent / "mistakes.yaml").read_text(encoding="utf-8")).values()
    for one in group
]


@pytest.mark.parametrize("mistake", MISTAKES)
def test_one_mistake_is_one_error_that_says_where_and_what(mistake: dict[str, Any]) -> None:
    type_ = mistake["type"]
    found = spoilt(type_, mistake["at"], mistake.get("value"), name="nodes" if type_ == SUBNETWORK else "")
    assert [(one.path, one.severity) for one in found] == [(mistake.get("path", mistake["at"]), "error")]
    assert mistake.get("says", "") in f"{found[0].what} ({found[0].source})"
    assert mistake.get("fix", "") in found[0].fix
    assert found[0].fix
    assert found[0].source
    described = re.match(r"[a-z]+\.(v\d|beta)", found[0].source)
    assert described is None or re.match(rf"{re.escape(described[0])}\w* revision \d{{8}}", found[0].source)


def test_a_proxy_only_subnet_has_64_addresses_a_role_and_no_pods() -> None:
    def found(path: str, value: Any) -> list[tuple[str, str]]:
        return [(one.path, one.what) for one in spoilt(SUBNETWORK, path, value, name="proxy-only")]

    small = [("ipCidrRange", "10.8.0.0/27 has 32 addresses; a proxy-only subnet needs 64 or more")]
    assert found("ipCidrRange", "10.8.0.0/27") == small
    assert found("ipCidrRange", "10.8.0.0/26") == []
    assert [path for path, _ in found("role", None)] == ["role"]
    pods = [{"rangeName": "pods", "ipCidrRange": "10.64.0.0/14"}]
    assert [path for path, _ in found("secondaryIpRanges", pods)] == ["secondaryIpRanges"]


def test_a_deprecated_field_is_a_warning_with_what_the_api_says() -> None:
    (found,) = spoilt(CLUSTER, "enableTpu", True)
    assert (found.path, found.severity) == ("enableTpu", "warning")
    assert "is deprecated in the API" in found.what


def test_a_role_that_nobody_has_looked_up_is_a_warning_with_the_one_that_was_meant() -> None:
    (found,) = spoilt("iAMMember:IAMMember", "role", "roles/container.defaultNodeServiceAcount")
    assert (found.path, found.severity) == ("role", "warning")
    assert found.fix.startswith("did you mean roles/container.defaultNodeServiceAccount?")


def test_arguments_that_are_never_sent_are_a_warning() -> None:
    found = spoilt(CLUSTER, "controlPlaneEndpointsConfig.ipEndpointsConfig.enabled", False)
    assert [(one.path, one.severity) for one in found] == [
        ("masterAuthorizedNetworksConfig", "warning"),
        ("privateClusterConfig.enablePrivateEndpoint", "warning"),
    ]


def test_a_deprecated_value_is_a_warning_with_the_others() -> None:
    found = _deprecated_enum_value()
    assert found.severity == "warning"
    assert found.what == 'the value "OLD" is deprecated in the API'
    assert found.fix == "one of NEW"


def _deprecated_enum_value() -> Complaint:
    schema = {"type": "string", "enum": ["OLD", "NEW"], "enumDeprecated": [True, False]}
    content = {"revision": "1", "schemas": {"A": {"id": "A", "type": "object", "properties": {"kind": schema}}}}
    content["resources"] = {"a": {"methods": {"insert": {"id": "x.a.insert", "request": {"$ref": "A"}}}}}
    mapping = TypeMapping(read=(), document="x", method="x.a.insert")
    method = Document("x", content).method("x.a.insert")
    (found,) = check_request(build(mapping, {"kind": "OLD"}), method, mapping)
    return found


def test_a_type_that_nobody_compared_is_a_warning_not_a_silence() -> None:
    (found,) = check_inputs("gcp:compute/disk:Disk", {"name": "a"})
    assert (found.severity, found.path) == ("warning", "gcp:compute/disk:Disk")
    assert "nothing here has checked it" in found.what


def test_a_finding_names_the_resource_the_value_what_is_allowed_who_says_so_and_the_fix() -> None:
    recording = _with("platform-network-vpc", routingMode="REGONAL")
    (finding,) = check(recording)
    assert finding.severity == "error"
    assert finding.subject == next(one.urn for one in recording.resources if one.name == "platform-network-vpc")
    assert finding.message.startswith(
        'routingMode: "REGONAL" is not allowed; allowed: one of GLOBAL, REGIONAL (compute.beta '
    )
    assert "revision 20" in finding.message
    assert finding.message.endswith("NetworkRoutingConfig.routingMode)")
    assert finding.fix == "write REGIONAL"


def test_two_mistakes_are_two_findings() -> None:
    inputs = inputs_of(SUBNETWORK) | {"ipCidrRange": "x", "region": "a/b", "stackType": "IPV5"}
    assert {one.path for one in check_inputs(full_name(SUBNETWORK), inputs)} == {"ipCidrRange", "region", "stackType"}


def test_a_secret_that_is_wrong_stays_a_secret() -> None:
    inputs = inputs_of(CLUSTER) | {
        "description": Secret(7),
        "name": Secret("NOT-THIS"),
        "minMasterVersion": Secret("1.34"),
    }
    found = list(check_inputs(full_name(CLUSTER), inputs))
    assert [one.path for one in found] == ["description", "name"]
    assert "[secret]" in found[0].what
    assert not [one for one in found if "NOT-THIS" in f"{one.what}{one.fix}{one.source}"]


def test_an_unknown_value_hides_no_wrong_name() -> None:
    inputs = inputs_of(CLUSTER) | {"network": UNKNOWN, "locations2": UNKNOWN}
    assert [one.path for one in check_inputs(full_name(CLUSTER), inputs)] == ["locations2"]


def test_a_long_value_is_cut() -> None:
    (found,) = spoilt("account:Account", "description", "x" * 300)
    assert "x" * 78 + "…" in found.what
    assert "x" * 90 not in found.what


def test_ranges_of_one_network_must_not_overlap() -> None:
    (finding,) = check(_with("platform-network-proxy-only", ipCidrRange="10.64.0.0/23"))
    assert "10.64.0.0/23 overlaps secondaryIpRanges[0].ipCidrRange 10.64.0.0/14 of" in finding.message


def test_the_cluster_asks_for_ranges_that_its_subnet_has() -> None:
    (finding,) = check(_with("platform-cluster-autopilot", ipAllocationPolicy={"clusterSecondaryRangeName": "pod"}))
    assert finding.message.startswith('ipAllocationPolicy.clusterSecondaryRangeName: "pod" is no secondary range of')
    assert finding.fix == "one of pods, services"


def test_the_whole_check_takes_less_than_a_second_in_a_new_process_and_imports_no_client() -> None:
    inputs = [(one.type, reveal(dict(one.inputs))) for one in everything().resources if one.type.startswith("gcp:")]
    program = (
        "import json, sys, time\n"
        "resources = json.load(sys.stdin)\n"
        "before = time.perf_counter()\n"
        "from rehearsal.google_cloud.check import check_inputs\n"
        "assert not [found for type_, inputs in resources for found in check_inputs(type_, inputs)]\n"
        "print(time.perf_counter() - before)\n"
        "assert not {'googleapiclient', 'pulumi', 'pulumi_gcp'} & sys.modules.keys()\n"
    )

    def seconds() -> float:
        ran = subprocess.run(
            [sys.executable, "-c", program],
            cwd=ROOT,
            input=json.dumps(inputs),
            capture_output=True,
            text=True,
            check=True,
        )
        return float(ran.stdout)

    # Measured: 0.2 s on two cores, half of it compute's description. A busy machine gets a second try.
    assert seconds() < 1.0 or seconds() < 1.0


@pytest.mark.slow
@given(data=st.data())
@hypothesis.settings(max_examples=150)
def test_no_input_however_odd_ends_in_anything_but_findings(data: st.DataObject) -> None:
    odd = st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.just(UNKNOWN),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=3),
        max_leaves=6,
    )
    type_ = data.draw(st.sampled_from(sorted(table().types)))
    inputs = data.draw(st.sampled_from([dict(one.inputs) for one in everything().resources if one.type == type_]))
    for path in data.draw(st.lists(st.sampled_from(sorted(inputs) + NAMES), min_size=1, max_size=3)):
        inputs = {**inputs, path: data.draw(odd)}
    for one in check_inputs(type_, inputs):
        assert one.path
        assert one.finding("urn").message


NAMES = sorted(
    {part for one in table().types.values() for path in (*one.values, *one.fields) for part in path.split(".")}
)


def _with(name: str, **inputs: Any) -> Recording:
    """The recording of everything, one resource of it changed."""
    changed = [
        dataclasses.replace(one, inputs={**copy.deepcopy(dict(one.inputs)), **inputs}) if one.name == name else one
        for one in everything().resources
    ]
    return dataclasses.replace(everything(), resources=tuple(changed))
