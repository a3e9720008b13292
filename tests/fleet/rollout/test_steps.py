"""The steps of a rollout: what each makes of the stack file, and what it refuses."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from facts.finding import JSON_VERSION
from fleet.bench.folder import VERDICT_FILE
from fleet.cli.exits import CommandError
from fleet.cli.rollout import Version
from fleet.preview.offline import OfflineStack, open_stack, record_stack
from fleet.preview.record.recording import RecordedResource
from fleet.preview.report.model import _canary
from fleet.report.outline import Next, Prose, Section
from fleet.rollout import report
from fleet.rollout.effort import REPEATS
from fleet.rollout.judge.measuring import asked_of
from fleet.rollout.judge.verdict import (
    NEEDED,
    Decision,
    Limits,
    Verdict,
    as_text,
    decide,
    declaration_of,
    reason,
)
from fleet.rollout.planned import benchmark_missing, one_measurement
from fleet.rollout.report import Judged, after_start, status
from fleet.rollout.steps import Change, Rollout
from fleet.verify.facts import Pod
from settings.checks.placeholders import STAND_IN_PROJECT
from settings.derived.canary import release
from settings.derived.measurement import measurement
from settings.load import parse
from settings.problems import SettingsError
from settings.stack import Settings
from settings.stack_file import read
from tests.fleet.cli.command import fleet
from tests.fleet.cli.test_rollout_judge import side
from tests.fleet.verify.made_cluster import MadeCluster
from tests.support.rows import each_row
from tests.support.settings import make_settings

ROOT = Path(__file__).resolve().parents[3]
REVISION = "0123456789abcdef0123456789abcdef01234567"
IMAGE = {"tag": "v0.18.0", "digest": f"sha256:{'1' * 64}"}
CANARIES: dict[str, dict[str, Any]] = {
    "engine": {"engine": {"seed": 1, "maxNumSeqs": None}},
    "release": {"engine": {"version": "0.18.0", "useDeepGemm": False}, "image": IMAGE},
    "image": {"image": IMAGE, "engine": {"useDeepGemm": False}},
    "revision": {"model": {"revision": REVISION}},
    "model": {"model": {"id": "Qwen/Qwen3-32B-FP8"}},
    "profile": {"profile": "serve-chat"},
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name in ("Pulumi.yaml", "Pulumi.dev.yaml"):
        shutil.copy(ROOT / name, tmp_path)
    return tmp_path


def started(root: Path, **declared: Any) -> Rollout:
    Rollout(root, "dev").start(declared).write()
    return Rollout(root, "dev")


def refused(step: Any, *given: Any) -> str:
    with pytest.raises(SettingsError) as refusal:
        step(*given)
    return refusal.value.problems[0].id


@pytest.mark.parametrize("name", CANARIES)
def test_servers_become_what_the_canary_was_and_the_canary_goes(root: Path, name: str) -> None:
    rollout = started(root, **CANARIES[name])
    canary = rollout.settings.as_canary
    assert canary is not None
    rollout.promote("a reason: with 'quotes'").write()
    promoted = Rollout(root, "dev")
    assert release(promoted.settings) == release(canary)
    assert promoted.settings.server.name == rollout.settings.server.name
    # The canary's pods are not touched: what is laid over the new servers is what it was.
    assert promoted.settings.as_canary is not None
    assert release(promoted.settings.as_canary) == release(canary)
    promoted.finish().write()
    after = Rollout(root, "dev").settings
    assert after.rollout.canary is None
    assert release(after) == release(canary)


@pytest.mark.parametrize(("name", "adapters"), [("revision", ["support"]), ("model", [])])
def test_adapters_stay_with_their_model(root: Path, name: str, adapters: list[str]) -> None:
    file = root / "Pulumi.dev.yaml"
    listed = f'[{{name: support, id: my-team/lora, revision: "{REVISION}", rank: 16}}]'
    # The record's release has no adapters for this model.
    stack = file.read_text().replace("profile: record", "profile: tuned")
    file.write_text(f"{stack}  vllm-fleet:model:\n    id: Qwen/Qwen3.5-27B-FP8\n    adapters: {listed}\n")
    started(root, **CANARIES[name]).promote("x").write()
    promoted = Rollout(root, "dev").settings
    assert promoted.as_canary is not None
    for settings in (promoted, promoted.as_canary):
        assert [adapter.name for adapter in settings.serving.model.adapters] == adapters
        assert bool(settings.serving.engine.enable_lora) == bool(adapters)


def test_an_aborted_rollout_leaves_the_stack_file_as_it_was(root: Path) -> None:
    started(root, **CANARIES["release"]).abort().write()
    assert (root / "Pulumi.dev.yaml").read_bytes() == (ROOT / "Pulumi.dev.yaml").read_bytes()


def test_each_step_has_its_time(root: Path) -> None:
    before = Rollout(root, "dev")
    assert [refused(step) for step in (before.abort, before.finish)] == ["no-canary", "no-canary"]
    assert refused(before.promote, "x") == "no-canary"
    assert refused(before.start, {"profile": "record"}) == "canary-without-difference"
    assert refused(before.start, {"engine": {"maxNumSeqs": 8}}) == "sequences-below-load"
    rollout = started(root, **CANARIES["engine"])
    assert refused(rollout.start, CANARIES["engine"]) == "rollout-goes-on"
    assert refused(rollout.finish) == "not-promoted"
    rollout.promote("x").write()
    promoted = Rollout(root, "dev")
    assert [refused(promoted.promote, "x"), refused(promoted.abort)] == ["promoted-already", "promoted-already"]


def test_the_preview_names_a_promoted_canarys_release(root: Path) -> None:
    started(root, **CANARIES["release"]).promote("x").write()
    assert "promoted canary (vLLM 0.18.0 @ " in _canary(Rollout(root, "dev").settings)


def test_a_section_without_a_canary_is_filled(root: Path) -> None:
    file = root / "Pulumi.dev.yaml"
    file.write_text(f"{file.read_text()}  vllm-fleet:rollout: {{}}\n")
    assert started(root, **CANARIES["engine"]).settings.as_canary is not None


def test_a_section_in_a_text_is_refused(root: Path) -> None:
    file = root / "Pulumi.dev.yaml"
    server = re.compile(r"  vllm-fleet:server:\n(    .*\n)+")
    text = """  vllm-fleet:server: '{"profile": "record", "replicas": 1}'\n"""
    file.write_text(server.sub(text, file.read_text()))
    assert refused(Rollout(root, "dev").start, CANARIES["engine"]) == "section-in-text"


def test_the_stack_file_keeps_its_mode(root: Path) -> None:
    file = root / "Pulumi.dev.yaml"
    file.chmod(0o640)
    rollout = started(root, **CANARIES["engine"])
    assert file.stat().st_mode & 0o777 == 0o640
    file.chmod(0o444)
    with pytest.raises(PermissionError):
        rollout.abort().write()
    assert file.stat().st_mode & 0o777 == 0o444


@pytest.mark.parametrize("model", ['{"sizeGb": 30}', '{"sizeGb": 30, "revision": "REVISION"}'])
def test_options_add_up(model: str) -> None:
    declared = Version(
        engine_version="0.18.0",
        revision=REVISION,
        set_=[f"model={model}".replace("REVISION", REVISION), "engine.seed=1"],
    ).declared()
    assert declared == {
        "engine": {"version": "0.18.0", "seed": 1},
        "model": {"revision": REVISION, "sizeGb": 30},
    }


@pytest.mark.parametrize(
    "option",
    ["engine.version=0.19.0", "engine=null", "engine.seed=NaN", "engine.seed=1e999", "engine.seed=99999999999999999"],
)
def test_options_that_cannot_be_are_refused(option: str) -> None:
    with pytest.raises(CommandError):
        Version(engine_version="0.18.0", set_=[option]).declared()


def test_the_plan_prices_what_judge_measures(root: Path) -> None:
    file = root / "Pulumi.dev.yaml"
    file.write_text(file.read_text().replace("enabled: false", "enabled: true\n    repeats: 7"))
    settings = started(root, **CANARIES["engine"]).settings
    asked = asked_of(
        settings.model_copy(update={"benchmark": settings.benchmark.model_copy(update={"repeats": REPEATS})})
    )
    assert one_measurement(settings).runs == len(asked["old"].run["points"]) * REPEATS
    assert benchmark_missing(settings) == ""


def test_a_benchmark_that_is_off_is_said_first(root: Path) -> None:
    settings = started(root, **CANARIES["engine"]).settings
    told = benchmark_missing(settings)
    assert "vllm-fleet:benchmark" in told
    assert "Pulumi.dev.yaml" in told
    printed = fleet("rollout", "plan", "--stack", "dev", "--set", "engine.seed=1")
    first = printed.stdout.splitlines()[1]
    assert first == told[: len(first)]
    assert "git commit Pulumi.dev.yaml" in printed.stdout


@pytest.mark.parametrize("command", ["abort", "status"])
def test_a_damaged_verdict_hinders_nobody(root: Path, command: str) -> None:
    started(root, **CANARIES["engine"])
    damaged = root / "verdict.json"
    damaged.write_text("{")
    done = fleet("rollout", command, "--stack", "dev", "--root", str(root), "--verdict", str(damaged))
    assert (done.returncode, "is not a verdict" in " ".join(done.stdout.split())) == (0, True)


def test_status_names_the_verdict_file_that_is_missing(root: Path) -> None:
    started(root, **CANARIES["engine"])
    done = fleet("rollout", "status", "--stack", "dev", "--root", str(root), "--verdict", "other/verdict.json")
    assert (done.returncode, "other/verdict.json" in done.stdout) == (0, True)


def test_the_newest_verdict_of_this_stack_is_found_and_not_believed_without_results(root: Path) -> None:
    rollout = started(root, **CANARIES["release"])
    for folder in ("dev-20260101-000000", "dev-20260102-000000", "dev-2-20270101-000000"):
        file = root / "out" / "rollout" / folder / VERDICT_FILE
        file.parent.mkdir(parents=True)
        file.write_text(as_text(verdict(rollout.settings)))
    before = rollout.path.read_bytes()
    stack = ("--stack", "dev", "--root", str(root))
    told = json.loads(fleet("rollout", "status", *stack, "--format", "json", cwd=root).stdout)["verdict"]
    assert ("dev-20260102-000000" in told["file"], told["verdict"], told["applies"]) == (True, None, False)
    refused = fleet("rollout", "promote", *stack, cwd=root)
    assert (refused.returncode, "dev-20260102-000000" in refused.stderr) == (2, True)
    assert rollout.path.read_bytes() == before


@pytest.mark.slow
def test_a_verdict_with_its_results_promotes(root: Path) -> None:
    rollout = started(root, **CANARIES["release"])
    place = root / "out" / "rollout" / "dev-20260102-000000"
    for number, (name, one) in enumerate((("old", rollout.settings), ("canary", rollout.settings.as_canary))):
        assert one is not None
        side(place / name, 10 * number)
        declared = measurement(one).run
        for file in (place / name).glob("*/run.json"):
            made = json.loads(file.read_text())
            kept = {
                key: declared[key] for key in ("stack", "profile", "served_model", "model_revision", "image", "release")
            }
            shape = declared["shape"] | {key: made["shape"][key] for key in ("replicas", "routing", "workload")}
            file.write_text(json.dumps(made | kept | {"shape": shape}))
    stack, wide = ("--stack", "dev", "--root", str(root)), ("--limit", "ttft=50", "--limit", "throughput=5")
    results = ("--results", str(place / "old"), str(place / "canary"))
    judged = fleet("rollout", "judge", *stack, *results, *wide, cwd=root)
    assert (judged.returncode, judged.stderr) == (0, ""), judged.stdout
    told = json.loads(fleet("rollout", "status", *stack, "--format", "json", cwd=root).stdout)["verdict"]
    assert (told["verdict"], told["applies"]) == ("promote", True)
    file = place / VERDICT_FILE
    file.write_text(file.read_text().replace("throughput=5", "throughput=2"))
    assert fleet("rollout", "promote", *stack, cwd=root).returncode == 2
    file.write_text(file.read_text().replace("throughput=2", "throughput=5"))
    assert fleet("rollout", "promote", *stack, cwd=root).returncode == 0
    assert "throughput=5" in (Rollout(root, "dev").settings.rollout.promoted or "")


def verdict(settings: Settings, decision: Decision = "promote") -> Verdict:
    assert settings.as_canary is not None
    old, canary = (json.loads(json.dumps(measurement(one).run)) for one in (settings, settings.as_canary))
    reasons = [reason(name, decision, "so", "so", "so") for name in NEEDED]
    return Verdict.model_validate(
        {
            "verdict": decision,
            "headline": decide(reasons, Limits())[1],
            "declaration": declaration_of(canary),
            "limits": Limits(),
            "reasons": reasons,
            "certificates": {},
            "old": (old,),
            "canary": (canary,),
        },
        strict=False,
    )


def test_only_a_verdict_of_this_canary_beside_these_servers_promotes(root: Path) -> None:
    rollout = started(root, **CANARIES["release"])
    rollout.verdict(verdict(rollout.settings))
    assert refused(rollout.verdict, verdict(rollout.settings, "reject")) == "verdict"
    rollout.abort().write()
    other = started(root, **CANARIES["image"], profile="serve-chat")
    assert refused(other.verdict, verdict(rollout.settings)) == "verdict-of-another"


def test_without_a_canary_no_verdict_is_asked_for(root: Path) -> None:
    done = fleet("rollout", "promote", "--stack", "dev", "--root", str(root), cwd=root)
    assert (done.returncode, "fleet rollout start" in done.stderr) == (2, True), done.stderr
    assert "fleet rollout judge" not in done.stderr


UP = ("git commit Pulumi.dev.yaml", "pulumi up --stack dev")
TO_THE_VERDICT = (
    "fleet preview --stack dev --against HEAD",
    *UP,
    "fleet verify --stack dev --canary --answers",
    "fleet rollout judge --stack dev",
)
WATCH = "fleet rollout watch --stack dev"
END = "fleet rollout promote --stack dev, or fleet rollout abort --stack dev"
NEXT: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "an offline trial": ({}, (*TO_THE_VERDICT, END)),
    "a gateway": (
        {"gateway": {"enabled": True}},
        (*TO_THE_VERDICT, "fleet rollout weight 5 --stack dev", *UP, WATCH, END),
    ),
    "with users from its start": (
        {"gateway": {"enabled": True}, "rollout": {"canary": {"weight": 5}}},
        (*TO_THE_VERDICT, WATCH, END),
    ),
}


@each_row("sections, expected", NEXT.values())
def test_a_start_names_every_step_of_the_guide(sections: dict[str, Any], expected: tuple[str, ...]) -> None:
    settings = make_settings("dev", **sections)
    assert after_start(Change(path=Path("Pulumi.dev.yaml"), text="", before=settings, after=settings)) == expected


def test_every_written_stack_file_is_committed_before_the_next_update(root: Path) -> None:
    rollout = started(root, **CANARIES["engine"])
    change = rollout.promote("x")
    change.write()
    told_of = (report.weighed(change), report.promoted(change, None), report.finished(Rollout(root, "dev").finish()))
    for told in told_of:
        steps = [one.command for section in told.body if isinstance(section, Section) for one in commands(section)]
        assert tuple(steps[steps.index(UP[0]) :][:2]) == UP
    restored = [one.text for one in told_of[1].body if isinstance(one, Prose) and "git checkout" in one.text]
    assert ["`git checkout COMMIT -- Pulumi.dev.yaml`" in one for one in restored] == [True]


def commands(section: Section) -> Iterator[Next]:
    return (one for one in section.body if isinstance(one, Next))


@pytest.mark.slow
def test_commands_take_an_upgrade_from_start_to_finish(root: Path) -> None:
    stack = ("--stack", "dev", "--root", str(root))
    options = ("--revision", REVISION, "--set", "engine.seed=1")
    assert fleet("rollout", "plan", *stack, *options).returncode == 0
    assert (root / "Pulumi.dev.yaml").read_bytes() == (ROOT / "Pulumi.dev.yaml").read_bytes()
    assert fleet("rollout", "start", *stack, *options).returncode == 0
    assert fleet("rollout", "status", *stack).returncode == 0
    verdict_file = ("--verdict", str(root / "none.json"))
    without = fleet("rollout", "promote", *stack, *verdict_file)
    assert (without.returncode, "--without-verdict" in without.stderr) == (2, True)
    assert fleet("rollout", "promote", *stack, *verdict_file, "--without-verdict", "it is late").returncode == 0
    assert "it is late" in (Rollout(root, "dev").settings.rollout.promoted or "")
    assert fleet("rollout", "promote", *stack, "--finish").returncode == 0
    assert Rollout(root, "dev").settings.serving.model.revision == REVISION


def resources(root: Path, stack: OfflineStack) -> dict[str, RecordedResource]:
    file = read(root, "dev")
    config = {**file.config, "gcp:project": STAND_IN_PROJECT}
    opened = OfflineStack(root=ROOT, file=stack.file, config=config, settings=parse("dev", config), problems=())
    return {one.urn: one for one in record_stack(opened, "known").resources}


def changes(before: dict[str, RecordedResource], after: dict[str, RecordedResource]) -> Iterator[str]:
    for urn in sorted(before.keys() | after.keys()):
        name = urn.rpartition("::")[2]
        if urn not in before:
            yield f"+{name}"
        elif urn not in after:
            yield f"-{name}"
        elif before[urn].inputs != after[urn].inputs:
            yield f"~{name}"


@pytest.mark.slow
def test_a_rollout_changes_nothing_of_the_servers_but_the_servers(root: Path) -> None:
    stack = open_stack(ROOT, "dev")
    plain = resources(root, stack)
    rollout = started(root, **CANARIES["engine"], model={"revision": REVISION})
    beside = resources(root, stack)
    assert [one for one in changes(plain, beside) if one[0] != "+"] == ["~namespace-gpu-quota"]
    names = [(one.type, one.inputs["metadata"]["name"]) for one in beside.values() if "metadata" in one.inputs]
    assert len(names) == len(set(names)), "two resources are one object"
    rollout.promote("x").write()
    promoted = resources(root, stack)
    # Weights go over as they are: not one of the canary's objects is made, changed or deleted.
    assert [one for one in changes(beside, promoted) if one[0] != "-"] == ["~server-deployment"]
    gone = {one[1:] for one in changes(beside, promoted) if one[0] == "-"}
    assert gone == {"weights-canary", *_parts(plain)} - {"weights", "weights-account"}
    Rollout(root, "dev").finish().write()
    finished = resources(root, stack)
    assert [one for one in changes(promoted, finished) if one[0] != "-"] == ["~namespace-gpu-quota"]
    assert not [urn for urn in finished if "canary" in urn]


def _parts(resources: dict[str, RecordedResource]) -> set[str]:
    return {one.name for one in resources.values() if "workloads:Weights" in one.urn}


def test_plan_and_status_are_documents_too(root: Path) -> None:
    option = ("--stack", "dev", "--root", str(root), "--format", "json")
    before = json.loads(fleet("rollout", "status", *option).stdout)
    assert before == {"version": JSON_VERSION, "stack": "dev", "canary": None, "findings": []}
    plan = json.loads(fleet("rollout", "start", *option, "--set", "engine.seed=1").stdout)
    declared = json.loads(fleet("rollout", "status", *option).stdout)
    assert plan["canary"] == declared["canary"]
    assert plan["differences"] == declared["differences"]
    assert {"setting": "engine.seed", "servers": None, "canary": 1} in plan["differences"]
    assert declared["verdict"] is None
    assert {one["id"]: one["severity"] for one in declared["findings"]} == {
        "canary-verdict": "unknown",
        "canary-pods": "unknown",
    }


def pod(name: str, why_not_ready: str = "") -> Pod:
    return Pod(
        name=name, node="n", ready=not why_not_ready, going=False, why_not_ready=why_not_ready, image="i", args=()
    )


STATUS: dict[str, tuple[Judged | None, tuple[Pod, ...] | None, dict[str, str]]] = {
    "nothing asked": (None, None, {"canary-verdict": "unknown", "canary-pods": "unknown"}),
    "ready, judged": (
        Judged(file=Path("v"), verdict="promote", headline="promote", applies=True),
        (pod("a"),),
        {"canary-verdict": "passed", "canary-pod": "passed", "canary-pods": "passed"},
    ),
    "a pod that crashes": (
        Judged(file=Path("v"), verdict="reject", headline="reject", applies=False),
        (pod("a", "CrashLoopBackOff"),),
        {"canary-verdict": "warning", "canary-pod": "error", "canary-pods": "error"},
    ),
    "no pod": (None, (), {"canary-verdict": "unknown", "canary-pods": "error"}),
    "two for one": (
        None,
        (pod("a"), pod("b")),
        {"canary-verdict": "unknown", "canary-pod": "passed", "canary-pods": "warning"},
    ),
}


@pytest.mark.parametrize("name", STATUS)
def test_status_has_a_finding_for_the_verdict_and_each_pod(root: Path, name: str) -> None:
    judged, pods, expected = STATUS[name]
    told = status(started(root, **CANARIES["engine"]).settings, judged, "out/rollout/dev-TIME", pods)
    assert {finding.id: finding.severity for finding in told.findings} == expected


def _changed(*, ready: bool = True, going: bool = False) -> dict[str, Any]:
    """What differs from a ready pod."""
    status = {
        "conditions": [{"type": "Ready", "status": str(ready)}],
        "containerStatuses": [] if ready else [{"state": {"waiting": {"reason": "CrashLoopBackOff"}}}],
    }
    return {"status": status, "metadata": {"deletionTimestamp": "2027-01-04T06:00:00Z"} if going else {}}


@pytest.fixture
def with_a_canary(root: Path) -> Rollout:
    return started(root, **CANARIES["engine"])


@each_row(
    ("pods", "code", "severities"),
    {
        "not ready": ([_changed(ready=False)], 1, ["error", "error"]),
        "ready, beside a terminating one": (
            [_changed(), _changed(ready=False, going=True)],
            0,
            ["passed", "note", "passed"],
        ),
        "terminating alone, still ready": ([_changed(going=True)], 1, ["note", "error"]),
        "ready, beside one that crashes": ([_changed(), _changed(ready=False)], 0, ["passed", "warning", "warning"]),
    }.values(),
)
def test_status_exits_with_1_where_fewer_replicas_are_ready_than_declared(
    pods: list[dict[str, Any]],
    code: int,
    severities: list[str],
    with_a_canary: Rollout,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    canary = with_a_canary.settings.as_canary
    assert canary is not None
    assert canary.replicas == 1
    cluster = MadeCluster(tmp_path_factory.mktemp("clusters") / "cluster", canary, ["http://none"] * len(pods))
    for manifest, changed in zip(cluster.pods, pods, strict=True):
        manifest["status"] |= changed["status"]
        manifest["metadata"] |= changed["metadata"]
    cluster.write()
    asked = ("--stack", "dev", "--root", str(with_a_canary.path.parent), "--context", "blue", "--format", "json")
    done = fleet("rollout", "status", *asked, path=cluster.path, FAKE_CLUSTER=str(cluster.folder))
    findings = [one["severity"] for one in json.loads(done.stdout)["findings"] if one["id"].startswith("canary-pod")]
    assert (done.returncode, findings) == (code, severities), done.stderr
