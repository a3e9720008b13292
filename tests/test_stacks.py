"""The whole program, stack file by stack file: reviewed inventories, both modes, nothing secret, nothing unknown."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from facts.names import stack_names
from facts.secrets_in_text import without_secrets
from fleet.preview.offline import open_stack, record_stack
from fleet.preview.policy_messages import seconds
from fleet.preview.record.recording import needs_of
from fleet.preview.record.values import Value, paths_of_unknowns, reveal, transform
from settings.derived.readme import PAGE, filled
from settings.load import check, parse
from settings.stack_file import read
from tests.inventory import BASE, FOLDER, ROOT, difference, inventory, laid_over, reviewed_stack
from tests.support.recorded import goes_before
from tests.support.rows import each_row
from tests.support.schemas import problems
from tests.support.stacks import CODE
from tests.support.stacks import recorded_stack as recorded
from tests.workflows.steps import ATTEMPTS, UP_MINUTES

STACKS = stack_names(ROOT)
RECORDED = (*STACKS, CODE)


def test_the_first_stack_needs_nothing_but_a_project() -> None:
    settings = parse("smoke", {**read(ROOT, "smoke").config, "gcp:project": "fleet-tests"})
    assert {problem.id for problem in check(settings) if problem.severity != "note"} == set()


@each_row("stack", STACKS)
def test_the_stack_is_as_its_reviewed_inventory_says(stack: str) -> None:
    reviewed = (FOLDER / f"{stack}.yaml").read_text(encoding="utf-8")
    found = reviewed_stack(stack, recorded(stack, "known"), recorded(BASE, "known"))
    assert found == reviewed, "run `make inventories`, read the diff, commit it with the change"


@each_row("stack", STACKS)
def test_an_inventory_loses_nothing_as_a_difference(stack: str) -> None:
    base, own = (inventory(recorded(one, "known")) for one in (BASE, stack))
    assert laid_over(base, difference(base, own)) == own


@each_row("stack", RECORDED)
def test_both_modes_record_the_same_resources(stack: str) -> None:
    assert recorded(stack, "known").by_urn.keys() == recorded(stack, "preview").by_urn.keys()


@each_row("stack", RECORDED)
def test_no_manifest_holds_an_unknown_value_once_outputs_are_known(stack: str) -> None:
    for resource in recorded(stack, "known").resources:
        if resource.type.startswith("kubernetes:"):
            assert paths_of_unknowns(dict(resource.inputs)) == [], resource.urn


@each_row("stack", RECORDED)
def test_nothing_complains(stack: str) -> None:
    for mode in ("preview", "known"):
        complaints = [d.message for d in recorded(stack, mode).diagnostics if d.severity == "error"]
        assert complaints == []


@each_row("stack", RECORDED)
def test_every_kubernetes_object_has_the_stacks_own_provider(stack: str) -> None:
    for resource in recorded(stack, "known").resources:
        if resource.custom and resource.type.startswith("kubernetes:"):
            assert "pulumi:providers:kubernetes" in resource.provider, resource.urn


@each_row("stack", RECORDED)
def test_nothing_ordinary_looks_like_a_secret(stack: str) -> None:
    def same(text: Value) -> Value:
        assert not isinstance(text, str) or without_secrets(text) == text
        return text

    for mode in ("preview", "known"):
        assert recorded(stack, mode).plaintexts == frozenset()
        for resource in recorded(stack, mode).resources:
            transform([dict(resource.inputs), resource.name, resource.urn], same)


@each_row("stack", RECORDED)
def test_the_readme_of_a_stack_names_outputs_that_it_has_and_none_that_is_secret(stack: str) -> None:
    page, outputs = PAGE.read_text(encoding="utf-8"), recorded(stack, "known").outputs
    assert outputs["readme"] == filled(outputs)
    named = re.findall(r"\$\{(.*?)\}", page)
    assert len(set(named)) > 8
    for path in named:
        value: Value = {"outputs": outputs}
        for key in path.split("."):
            value = value[key]
        assert isinstance(value, str | float | bool), path
        assert value != "", path


def test_the_readme_of_a_stack_fits_a_screen_and_names_no_stack_namespace_or_server_itself() -> None:
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    assert len(lines) < 50
    assert max(map(len, lines)) <= 140
    assert not re.search(r"qwen|--stack (?!\$)| -n (?!\$)|svc/(?!\$)", "\n".join(lines))


@each_row("stack", RECORDED)
def test_the_workflow_that_updates_a_stack_outlasts_what_the_program_waits_for(stack: str) -> None:
    """The longest chain of waits, each as long as the program grants it, made anew or changed."""
    ended: dict[str, float] = {}
    for one in recorded(stack, "known").resources:  # in the order of their needs
        granted = (one.custom_timeouts.get(operation, "0m") for operation in ("create", "update"))
        begins = max((ended[urn] for urn in needs_of(one) if urn in ended), default=0.0)
        ended[one.urn] = begins + max(seconds(text) for text in granted) / 60
    assert max(ended.values()) > 100
    assert max(ended.values()) <= UP_MINUTES * len(ATTEMPTS)


def test_a_guests_policies_know_the_ranges_of_the_stack_it_joins() -> None:
    (names,) = [r for r in recorded(CODE, "known").resources if r.name.endswith("network-policies-every-pod")]
    (_, peers, *_) = [[peer for peer in rule["to"] if "ipBlock" in peer] for rule in names.inputs["spec"]["egress"]]
    assert "10.32.0.10/32" in [peer["ipBlock"]["cidr"] for peer in peers]


def test_a_guest_makes_no_network_and_no_cluster() -> None:
    types = {r.type for r in recorded(CODE, "known").resources}
    assert not {t for t in types if t.startswith(("gcp:compute", "gcp:container"))}


def test_a_stack_is_the_same_from_another_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert record_stack(open_stack(ROOT, "dev"), "known").by_urn.keys() == recorded("dev", "known").by_urn.keys()


@each_row("stack", RECORDED)
def test_every_manifest_is_valid_for_the_clusters_version(stack: str) -> None:
    judged = 0
    for resource in recorded(stack, "known").resources:
        if resource.type.startswith("kubernetes:") and resource.type != "kubernetes:helm.sh/v3:Release":
            assert problems(reveal(dict(resource.inputs))) == [], resource.urn
            judged += 1
    assert judged >= (12 if stack == "smoke" else 16)


@each_row("stack", RECORDED)
def test_recording_rules_wait_for_the_first_pod_that_had_a_node(stack: str) -> None:
    recording = recorded(stack, "known")
    (rules,) = (one.name for one in recording.resources if one.type.endswith("/v1:Rules"))
    # smoke's server downloads the weights itself, so its pod is the first.
    jobs = (one.name for one in recording.resources if one.type.endswith("v1:Job") and ":Weights$" in one.urn)
    first = next(jobs, "server-deployment")
    assert (first == "server-deployment") == (stack == "smoke")
    assert goes_before(recording, rules, first)
    assert goes_before(recording, rules, "server-deployment") == (stack == "smoke")


@each_row("stack", RECORDED)
def test_no_pod_starts_before_what_guards_it(stack: str) -> None:
    recording = recorded(stack, "known")
    pods = [one for one in recording.resources if one.type.endswith(("apps/v1:Deployment", "batch/v1:Job"))]
    assert pods
    for pod in pods:
        account = pod.inputs["spec"]["template"]["spec"]["serviceAccountName"]
        guards = [
            one.name
            for one in recording.resources
            if one.type.endswith((":NetworkPolicy", ":ResourceQuota", ":ServiceAccount"))
            and one.inputs["metadata"]["namespace"] == pod.inputs["metadata"]["namespace"]
            and (one.type.endswith(("Policy", "Quota")) or one.inputs["metadata"]["name"] == account)
        ]
        assert len(guards) > 2
        for guard in guards:
            assert goes_before(recording, pod.name, guard), (pod.name, guard)


def test_no_gpu_is_rented_before_the_spending_guard_counts_and_a_destroy_takes_the_guard_last() -> None:
    assert goes_before(recorded("prod", "known"), "server-deployment", "spending-deployment")


@each_row("stack", STACKS)
def test_every_stack_has_a_ceiling_on_dollars(stack: str) -> None:
    config = json.loads((ROOT / "policy" / "config" / f"{stack}.json").read_text(encoding="utf-8"))
    assert config["hourly-cost-above-ceiling"]["maxUsdPerHour"] > 0
