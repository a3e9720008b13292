"""What the API server says of an object while it takes or refuses it, as findings in plain words."""

from __future__ import annotations

from fleet.rehearse.api import Manifest
from fleet.rehearse.apply.warnings import OF_A_CHART, warning_findings
from tests.fleet.rehearse.apply.fake_cluster import FakeCluster, refuse
from tests.fleet.rehearse.apply.test_up import applier, chart, config_maps, names, release
from tests.fleet.rehearse.autopilot.test_verdicts import REFUSED, WARNED

NO_NODE = (
    "Validation failed for ValidatingAdmissionPolicy 'autopilot-no-node-comes' with binding "
    "'autopilot-no-node-comes-templates': no node can be created: 9 GPUs. Ask for 8"
)
DEPRECATED = "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"


def warned(*texts: str) -> FakeCluster:
    cluster = FakeCluster()
    cluster.warnings["ConfigMap/a"] = list(texts)
    return cluster


def test_a_warning_of_the_api_server_is_a_finding_on_its_resource() -> None:
    report = applier(warned(DEPRECATED)).up(config_maps("a=1", "b=1"))
    assert not report.failed
    (finding,) = report.findings
    assert (finding.severity, names([finding.subject])) == ("warning", ["a"])
    assert finding.message.startswith("ConfigMap/a ")
    assert finding.message.endswith(f": {DEPRECATED}")


def test_what_autopilot_would_change_is_a_warning_with_its_fix() -> None:
    (finding,) = applier(warned(WARNED)).up(config_maps("a=1")).findings
    assert finding.severity == "warning"
    assert "8.0 GiB" in finding.message
    assert WARNED.endswith(finding.fix)


def test_a_template_whose_pods_no_node_comes_for_is_an_error() -> None:
    (finding,) = applier(warned(NO_NODE)).up(config_maps("a=1")).findings
    assert (finding.severity, finding.fix) == ("error", "Ask for 8")


def test_the_same_warning_is_told_once_and_different_ones_each() -> None:
    report = applier(warned(DEPRECATED, WARNED, DEPRECATED)).up(config_maps("a=1"))
    assert len(report.findings) == 2
    assert len(warning_findings("urn", "ConfigMap/a", [WARNED, WARNED])) == 1


def test_an_update_is_warned_of_too_and_what_stays_the_same_is_not() -> None:
    cluster = warned(DEPRECATED)
    first = applier(cluster).up(config_maps("a=1", "b=1"))
    second = applier(cluster).up(config_maps("a=2", "b=1"), first.state)
    assert [names([one.subject]) for one in second.findings] == [["a"]]
    assert applier(cluster).up(config_maps("a=2", "b=1"), second.state).findings == ()


def test_objects_of_a_chart_warn_on_behalf_of_its_release() -> None:
    cluster = FakeCluster()
    cluster.warnings = {"ConfigMap/configmap": [WARNED], "Thing/thing": [WARNED]}
    report = applier(cluster, charts=lambda _: chart("ConfigMap", "Thing")).up(release())
    assert [names([one.subject]) for one in report.findings] == [["pool"]]


def test_a_chart_that_is_refused_half_way_still_tells_its_warnings() -> None:
    cluster = FakeCluster(lambda one: refuse(403, "Forbidden", "not here") if one["kind"] == "Thing" else None)
    cluster.warnings["ConfigMap/configmap"] = [DEPRECATED]
    report = applier(cluster, charts=lambda _: chart("ConfigMap", "Thing")).up(release())
    assert {one.severity for one in report.findings} == {"warning", "error"}


def test_what_autopilot_refuses_is_said_in_its_own_words_with_the_fix() -> None:
    def refuses(one: Manifest) -> None:
        if one["kind"] == "ConfigMap":
            refuse(403, "Forbidden", REFUSED)

    report = applier(FakeCluster(refuses)).up(config_maps("a=1"))
    (text,) = report.failed.values()
    assert text.startswith("ConfigMap apply-test/a: GKE Autopilot refuses it: ")
    assert "(rule autopilot-security; " in text
    assert "ValidatingAdmissionPolicy" not in text
    (finding,) = report.findings
    assert finding.severity == "error"
    assert "securityContext.privileged" in finding.fix


def test_what_is_warned_of_in_a_charts_objects_is_not_for_the_stack_to_write() -> None:
    (finding,) = warning_findings("urn:release", "Release/pool", [DEPRECATED], of_chart=True)
    assert finding.fix == OF_A_CHART
    (broken,) = warning_findings("urn:release", "Release/pool", [NO_NODE], of_chart=True)
    assert broken.severity == "error"
    assert broken.fix != OF_A_CHART
