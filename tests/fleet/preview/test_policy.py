from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from fleet.preview import children
from fleet.preview.policy import PolicyRun, Violation, find_pack, start
from fleet.preview.policy_config import PolicyError
from fleet.preview.policy_messages import seconds
from tests.fleet.preview.programs import FIXTURES, TOKEN, whole_fleet
from tests.support.waiting import alive, within

PACK = FIXTURES / "pack"


def started(pack: Path = PACK, **options: object) -> PolicyRun:
    return start(pack, project="vllm-fleet", stack="gateway", **options)  # type: ignore[arg-type]


def judged(**options: object) -> tuple[Violation, ...]:
    with started(**options) as run:
        return run.judge(whole_fleet("known"))


def by_policy(violations: tuple[Violation, ...]) -> dict[str, list[Violation]]:
    found: dict[str, list[Violation]] = {}
    for one in violations:
        found.setdefault(one.policy, []).append(one)
    return found


@pytest.fixture(scope="module")
def verdicts() -> dict[str, list[Violation]]:
    return by_policy(judged())


def test_a_project_without_a_pack_has_none(tmp_path: Path) -> None:
    (tmp_path / "__main__.py").touch()
    assert find_pack(tmp_path) is None
    shutil.copytree(PACK, tmp_path / "policy")
    assert find_pack(tmp_path) == tmp_path / "policy"


def test_rules_that_hold_say_nothing(verdicts: dict[str, list[Violation]]) -> None:
    assert "unprotected-cluster" not in verdicts
    assert "breaks" not in verdicts


def test_a_rule_sees_the_options_of_a_resource_and_the_stack_without_one() -> None:
    known = whole_fleet("known")
    protected = tuple(replace(one, protect=True) for one in known.resources)
    without = tuple(one for one in known.resources if not one.urn.endswith("::cluster-autopilot"))
    with started() as run:
        (found,) = by_policy(run.judge(replace(known, resources=protected)))["unprotected-cluster"]
        (alone,) = by_policy(run.judge(replace(known, resources=without)))["one-cluster"]
    assert found.urn.endswith("::cluster-autopilot")
    assert found.level == "mandatory"
    assert alone.message.endswith("0 clusters")
    assert alone.urn.endswith("pulumi:pulumi:Stack::vllm-fleet-gateway")


def test_a_rule_keeps_its_own_level_and_the_defaults_of_its_schema(verdicts: dict[str, list[Violation]]) -> None:
    (found,) = verdicts["few-replicas"]
    assert found.level == "advisory"
    assert found.message == "Keep it small.\nmore than 4 replicas"
    assert found.urn.endswith("::server-deployment")


def test_timeouts_arrive_in_seconds(verdicts: dict[str, list[Violation]]) -> None:
    assert any("6480 s" in one.message for one in verdicts["leak"])


def test_a_rule_that_repeats_a_secret_is_redacted(verdicts: dict[str, list[Violation]]) -> None:
    messages = [one.message for one in verdicts["leak"]]
    assert "Say it.\nthe token is [secret] in stack vllm-gateway" in messages
    assert TOKEN not in str(verdicts)


def test_a_rule_about_the_stack_sees_outputs_and_names_a_resource(verdicts: dict[str, list[Violation]]) -> None:
    (found,) = verdicts["one-cluster"]
    assert found.message.endswith("the cluster's endpoint is known")
    assert found.urn.endswith("::cluster-autopilot")


def test_configuration_changes_levels_and_properties() -> None:
    found = by_policy(
        judged(
            config={
                "all": "advisory",
                "leak": "disabled",
                "few-replicas": {"most": 7, "enforcementLevel": "mandatory"},
            }
        )
    )
    assert "leak" not in found
    assert {one.level for one in found["one-cluster"]} == {"advisory"}
    assert [(one.level, one.message) for one in found["few-replicas"]] == [
        ("mandatory", "Keep it small.\nmore than 7 replicas")
    ]


def test_a_rule_that_breaks_is_a_mandatory_violation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PACK_RULE_BREAKS", "1")
    found = by_policy(judged())
    (broken,) = found["a-rule-failed"]
    assert broken.level == "mandatory"
    assert broken.message.endswith("this rule is wrong")
    assert broken.urn.endswith("::gateway-pool")
    assert "few-replicas" in found


def test_a_pack_that_does_not_start_is_named_with_what_it_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PACK_DIES_AT_START", "1")
    with pytest.raises(PolicyError, match=r"policy pack in .*pack[\s\S]*a bad day"):
        judged()


def test_a_pack_that_dies_while_asked_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PACK_DIES_LATER", "1")
    with pytest.raises(PolicyError, match=r"policy pack in .*pack"):
        judged()


def test_the_pack_is_stopped_when_asking_fails() -> None:
    run = started(config={"few": "mandatory"})
    with pytest.raises(PolicyError, match=r"policy/config/\S+\.json: no policy is named few"):
        run.judge(whole_fleet("known"))
    assert run._process.poll() is not None


LEAVER = """
import os, signal, subprocess, sys
from pathlib import Path
from fleet.preview import children
child = children.spawn([sys.executable, "-c", "import time; print('up', flush=True); time.sleep(60)"],
                       cwd=Path("."), env=os.environ)
child.stdout.readline()
print(child.pid, flush=True)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "end",
    [
        "pass",
        "raise SystemExit(3)",
        "from fleet.cli.exits import leave; leave(0)",
        pytest.param(
            "os.kill(os.getpid(), signal.SIGKILL)",
            marks=pytest.mark.skipif(sys.platform != "linux", reason="only Linux ties a child to its parent"),
        ),
    ],
)
def test_no_child_outlives_us_however_we_end(end: str) -> None:
    root = Path(children.__file__).parent.parent
    done = subprocess.run([sys.executable, "-c", LEAVER + end], cwd=root, capture_output=True, text=True, check=False)
    process_id = int(done.stdout)
    assert within(5, lambda: not alive(process_id))


@pytest.mark.parametrize(
    ("text", "expected"), [("60m", 3600), ("1h30m", 5400), ("90s", 90), ("1.5m", 90), ("500ms", 0.5)]
)
def test_durations_are_read(text: str, expected: float) -> None:
    assert seconds(text) == expected


@pytest.mark.parametrize("text", ["", "60", "60 minutes", "m", "1d"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is no duration; write it like 90s"):
        seconds(text)


@pytest.mark.slow
def test_a_stack_of_thousands_is_judged() -> None:
    """With every question asked at once, gRPC's server cancels some."""
    recording = whole_fleet("known")
    one = next(resource for resource in recording.resources if resource.type == "kubernetes:apps/v1:Deployment")
    many = tuple(replace(one, urn=f"{one.urn}-{number}", name=f"{one.name}-{number}") for number in range(3_000))
    with started() as run:
        found = run.judge(replace(recording, resources=(*recording.resources, *many)))
    assert {violation.urn for violation in found} >= {violation.urn for violation in judged()}
