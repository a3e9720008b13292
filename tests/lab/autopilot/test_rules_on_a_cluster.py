"""Autopilot's rules in force on a real API server: what each lets through, and what it says about what it does not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from lab.autopilot.install import BINDING, POLICY, SENTINEL, install
from lab.autopilot.policies import policies
from lab.autopilot.verdicts import Verdict, verdict
from lab.control_plane.api import NAMESPACE as NAMESPACE_KIND
from lab.control_plane.api import ApiRefusedError, ClusterApi, Kind
from tests.lab.autopilot.broken import BROKEN, Broken
from tests.lab.autopilot.objects import NAMESPACE, SPOT, cron_job, deployment, gpu_pod, pod
from tests.lab.shapes import SHAPES, STACKS, manifests
from tests.support.waiting import until
from tests.support.warning_api import WarningApi

if TYPE_CHECKING:
    from lab.control_plane.cluster import ControlPlane

pytestmark = pytest.mark.slow
EFFECTS = {one.name: one.effect for one in policies()}
PLURALS = {
    "Pod": "pods",
    "Service": "services",
    "Deployment": "deployments",
    "Job": "jobs",
    "CronJob": "cronjobs",
    "StorageClass": "storageclasses",
    "ComputeClass": "computeclasses",
}


@pytest.fixture(scope="module")
def ruled(control_plane: ControlPlane, custom_resources: object) -> Iterator[WarningApi]:
    """The session's cluster with Autopilot's rules, for this module alone: other tests make pods that Autopilot would not."""
    api = WarningApi.from_kubeconfig(control_plane.kubeconfig)
    assert custom_resources
    api.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    _wait_for_account(api)
    install(api)
    yield api
    for policy in policies():
        for binding in policy.bindings:
            api.delete(BINDING, binding["metadata"]["name"])
        api.delete(POLICY, policy.name)
    api.delete(NAMESPACE_KIND, NAMESPACE)
    api.close()


def tried(api: WarningApi, manifest: dict[str, Any]) -> list[Verdict]:
    """What the rules say about creating this object; nothing is stored."""
    try:
        api.raw("POST", f"{_folder(manifest)}?dryRun=All&fieldValidation=Strict", body=manifest)
    except ApiRefusedError as refusal:
        found = verdict(refusal.message)
        if found is None:
            raise
        assert refusal.status == 403
        return [found]
    return [found for one in api.warnings if (found := verdict(one)) is not None]


def text(found: Verdict) -> str:
    return f"{found.problem}. {found.fix}"


def is_accepted(api: ClusterApi, manifest: dict[str, Any]) -> bool:
    try:
        api.raw("POST", f"{_folder(manifest)}?dryRun=All&fieldValidation=Strict", body=manifest)
    except ApiRefusedError as refusal:
        assert verdict(refusal.message) is not None, refusal.message
        return False
    return True


@pytest.mark.parametrize("one", BROKEN, ids=lambda one: f"{one.policy}-{one.rule}")
def test_a_rule_finds_what_breaks_it_also_in_a_template(ruled: WarningApi, one: Broken) -> None:
    (found,) = [text(verdict) for verdict in tried(ruled, one.broken) if verdict.policy == one.policy]
    assert one.names in found
    assert is_accepted(ruled, one.broken) is (EFFECTS[one.policy] in ("changed", "advised"))
    for made in (deployment(one.broken), cron_job(one.broken)) if one.broken["kind"] == "Pod" else ():
        assert found in [text(verdict) for verdict in tried(ruled, made)], made["kind"]
        assert is_accepted(ruled, made) is (EFFECTS[one.policy] != "refused"), made["kind"]


def test_googles_own_namespaces_may_break_every_rule(ruled: WarningApi) -> None:
    agent = pod(hostNetwork=True, volumes=[{"name": "run", "hostPath": {"path": "/run"}}])
    assert not is_accepted(ruled, agent)
    agent["metadata"]["namespace"] = "kube-system"
    assert tried(ruled, agent) == []


def test_the_pods_of_a_deployment_that_no_node_can_run_are_refused_one_by_one(ruled: WarningApi) -> None:
    wrong = deployment(gpu_pod({**SPOT, "cloud.google.com/gke-spot": "yes"}))
    wrong["metadata"]["name"] = "never-runs"
    wrong["spec"]["replicas"] = 2
    ruled.apply(wrong)
    said = ruled.warnings
    try:
        assert [found.policy for one in said if (found := verdict(one)) is not None] == ["autopilot-no-node-comes"]
        message = _why_no_replicas(ruled, "never-runs")
        found = verdict(message)
        assert found is not None, message
        assert 'gke-spot is "yes"' in found.problem
    finally:
        ruled.delete(Kind("apps/v1", "Deployment"), "never-runs", NAMESPACE)


def test_the_api_server_itself_refuses_gpu_requests_unlike_their_limits(ruled: WarningApi) -> None:
    """Why there is no policy for it."""
    uneven = gpu_pod()
    uneven["spec"]["containers"][0]["resources"]["requests"]["nvidia.com/gpu"] = "4"
    with pytest.raises(ApiRefusedError, match=r"nvidia\.com/gpu limit of 8"):
        tried(ruled, uneven)


@pytest.mark.parametrize("name", [*STACKS, *SHAPES])
def test_autopilot_has_nothing_to_say_about_any_object_of_the_program(ruled: WarningApi, name: str) -> None:
    looked_at = [one for one in manifests(name) if one["kind"] in PLURALS]
    assert len(looked_at) >= 2
    for manifest in looked_at:
        if "namespace" in manifest["metadata"]:
            manifest["metadata"]["namespace"] = NAMESPACE
        assert tried(ruled, manifest) == [], manifest["metadata"]["name"]
        if manifest["kind"] in ("Deployment", "Job"):
            alone = pod()
            alone["metadata"].update(manifest["spec"]["template"]["metadata"])
            alone["spec"] = manifest["spec"]["template"]["spec"] | {"serviceAccountName": "default"}
            assert tried(ruled, alone) == [], manifest["metadata"]["name"]


def test_every_expression_fits_the_kinds_that_it_is_about(ruled: WarningApi) -> None:
    """The controller manager checks those that name one kind; what reads templates of eight is proved by the objects above."""
    names = {policy.name for policy in policies() if policy.subject != "pods"}
    checked: dict[str, Any] = {}

    def all_checked() -> bool:
        found = {one["metadata"]["name"]: one.get("status", {}) for one in ruled.list_all(POLICY)}
        checked.update({name: found[name].get("typeChecking") for name in names})
        return None not in checked.values()

    until(all_checked, seconds=60)
    assert checked == {name: {} for name in names}


def test_the_rules_are_in_force_when_install_returns_also_the_second_time(ruled: WarningApi) -> None:
    for policy in policies():
        for binding in policy.bindings:
            ruled.delete(BINDING, binding["metadata"]["name"])
    until(lambda: is_accepted(ruled, pod(hostNetwork=True)))
    for _ in range(2):
        install(ruled)
        assert not is_accepted(ruled, pod(hostNetwork=True))
    assert all(ruled.get(POLICY, one.name) for one in policies())
    assert ruled.get(POLICY, SENTINEL) is None
    assert ruled.get(BINDING, SENTINEL) is None


def _folder(manifest: dict[str, Any]) -> str:
    version, namespace = manifest["apiVersion"], manifest["metadata"].get("namespace")
    root = f"/apis/{version}" if "/" in version else f"/api/{version}"
    return "/".join(filter(None, (root, f"namespaces/{namespace}" if namespace else "", PLURALS[manifest["kind"]])))


def _why_no_replicas(api: ClusterApi, name: str) -> str:
    said = ""

    def failed() -> bool:
        nonlocal said
        made = api.get(Kind("apps/v1", "Deployment"), name, NAMESPACE) or {}
        conditions = made.get("status", {}).get("conditions") or ()
        said = next((condition["message"] for condition in conditions if condition["type"] == "ReplicaFailure"), "")
        return bool(said)

    until(failed)
    return said


def _wait_for_account(api: ClusterApi) -> None:
    account = Kind("v1", "ServiceAccount")
    until(lambda: api.get(account, "default", NAMESPACE) and api.get(account, "default", "kube-system"))
