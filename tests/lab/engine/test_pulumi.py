"""The driver against the real engine, with a program of two resources and a provider that creates everything."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.engine.events import Event, Step
from tests.support.driven_pulumi import DrivenPulumi, driven
from tests.support.passing_provider import PassingProvider, served
from tests.support.waiting import until

pytestmark = pytest.mark.slow

PROJECT = """
name: sample
runtime: {name: python, options: {virtualenv: .venv}}
requiredPulumiVersion: ">=3.200.0"
"""
PROGRAM = """
import pulumi

config = pulumi.Config()
first = pulumi.CustomResource(
    "sample:index:Thing", "first", {"size": config.get("size") or "1", "key": pulumi.Output.secret("hush")}
)
pulumi.CustomResource(
    "sample:index:Thing", "second", {"of": first.id, "fixed": config.get("fixed") or "a"},
    pulumi.ResourceOptions(protect=config.get_bool("protect") or False),
)
pulumi.export("greeting", "hello")
"""
FIRST, SECOND = (f"urn:pulumi:dev::sample::sample:index:Thing::{name}" for name in ("first", "second"))


@pytest.fixture
def provider() -> PassingProvider:
    return PassingProvider()


@pytest.fixture
def pulumi(tmp_path: Path, provider: PassingProvider) -> Iterator[DrivenPulumi]:
    with served(provider) as port:
        yield driven(tmp_path, PROJECT, PROGRAM, {"sample": port})


def test_a_stack_is_previewed_brought_up_changed_refreshed_and_destroyed(
    pulumi: DrivenPulumi, provider: PassingProvider
) -> None:
    preview = pulumi.preview("dev")
    assert preview.succeeded, preview.output
    assert preview.planned.operations[FIRST] == preview.planned.operations[SECOND] == "create"
    assert provider.calls == []

    seen: list[Event] = []
    up = pulumi.up("dev", on_event=seen.append)
    assert up.succeeded, up.output
    assert provider.calls == [("create", "first"), ("create", "second")]
    assert up.planned.urns("create", "started") == preview.planned.urns("create", "started")
    assert [urn for urn in up.done.urns("create") if urn in (FIRST, SECOND)] == [FIRST, SECOND]
    assert seen == [*up.planned, *up.done]
    assert up.done.summary is not None
    assert (up.done.summary.result, up.done.summary.changes["create"]) == ("succeeded", 3)
    state = pulumi.state("dev")
    first, second = state.get(FIRST), state.get(SECOND)
    assert first is not None
    assert second is not None
    assert (first.id, first.inputs, first.type, first.name) == (
        "id-of-first",
        {"size": "1", "key": "[secret]"},
        "sample:index:Thing",
        "first",
    )
    assert second.dependencies == (FIRST,)
    assert second.property_dependencies == {"of": (FIRST,), "fixed": ()}
    assert second.provider.startswith("urn:pulumi:dev::sample::pulumi:providers:sample::default")
    assert state.outputs == {"greeting": "hello"}
    assert "using pulumi-language-python from $PATH" not in up.output

    pulumi.run("config", "set", "fixed", "b", "--stack", "dev")
    pulumi.run("config", "set", "size", "2", "--stack", "dev")
    changed = pulumi.up("dev", "--skip-preview")
    assert changed.planned == ()
    assert {urn: changed.done.operations[urn] for urn in (FIRST, SECOND)} == {FIRST: "update", SECOND: "replace"}
    assert pulumi.refresh("dev").succeeded
    gone = pulumi.destroy("dev")
    assert gone.done.urns("delete")[:2] == (SECOND, FIRST)
    assert pulumi.state("dev").resources == ()


def test_a_refused_resource_and_a_broken_program_are_failures_with_their_messages(
    pulumi: DrivenPulumi, provider: PassingProvider
) -> None:
    provider.refused["second"] = "quota exceeded"
    outcome = pulumi.up("dev")
    assert outcome.code != 0
    assert "quota exceeded" in outcome.failures[SECOND]
    assert FIRST not in outcome.failures
    assert outcome.done.urns("create", "failed") == (SECOND,)

    (pulumi.project.folder / "__main__.py").write_text("raise ValueError('seven')")
    broken = pulumi.up("dev")
    assert broken.code != 0
    assert broken.done == ()
    assert any("ValueError: seven" in why for why in broken.failures.values())


def test_kill_leaves_a_lock_and_a_pending_operation_and_ends_the_program(
    pulumi: DrivenPulumi, provider: PassingProvider
) -> None:
    provider.held.clear()
    with pulumi.start("up", "dev", "--skip-preview") as running:
        until(lambda: ("create", "first") in provider.calls)
        running.kill()
        assert running.wait().code == 137
    provider.held.set()
    locked = pulumi.up("dev")
    assert locked.code != 0
    assert "lock" in locked.output
    assert pulumi.unlock("dev").code == 0
    assert pulumi.state("dev").pending == {FIRST: "creating"}
    until(lambda: not processes(str(pulumi.folder)))
    again = pulumi.up("dev")
    assert again.succeeded, again.output
    assert any("interrupted while creating" in diagnostic.message for diagnostic in again.done.diagnostics)
    assert pulumi.state("dev").pending == {FIRST: "creating"}
    assert pulumi.refresh("dev", "--clear-pending-creates").succeeded
    assert pulumi.state("dev").pending == {}


def test_what_a_listener_raises_reaches_the_caller(pulumi: DrivenPulumi) -> None:
    def broken(event: Event) -> None:
        if isinstance(event, Step):
            raise LookupError(event.urn)

    with pytest.raises(LookupError):
        pulumi.up("dev", on_event=broken)
    assert pulumi.state("dev").get(SECOND) is not None


def processes(word: str) -> list[str]:
    """Command lines with this word."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            text = path.read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            continue
        if word in text:
            found.append(text)
    return found
