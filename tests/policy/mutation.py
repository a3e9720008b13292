"""Mutation test of the policy pack: changes to real stacks, judged by the pack's own process over the Analyzer protocol.

    make mutants                            which rule caught which mutant, and the kill rate
    python -m tests.policy.mutation RULE    the mutants of some rules only

A verdict counts only if the unchanged stack does not get it, too.
"""

from __future__ import annotations

import gc
import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Literal

import grpc  # type: ignore[import-untyped]
from google.protobuf import empty_pb2  # type: ignore[import-untyped]
from pulumi.runtime.proto import analyzer_pb2, analyzer_pb2_grpc

from fleet.preview.offline import OfflineStack, record_stack
from fleet.preview.policy import PolicyRun, Violation
from fleet.preview.policy_config import LEVELS, config_file
from fleet.preview.policy_messages import PolicyMessages
from fleet.preview.record.recording import STACK_REFERENCE_TYPE, ProgramError, RecordedResource, Recording
from fleet.preview.record.values import merge
from settings.problems import SettingsError
from settings.sections.section import NAMESPACE
from tests.inventory import ROOT
from tests.policy.case import Case
from tests.support.recorded import unchecked, without_positions
from tests.support.stacks import CODE, opened_stack, recorded_stack, references_of

STACKS = ("dev", "spot", "cud", "gateway", CODE, "prod")
PACK = ROOT / "policy"
_SECONDS = 60


@dataclass(frozen=True, slots=True)
class PackRule:
    """What the pack says of one of its policies."""

    name: str
    level: str
    judges: Literal["resource", "stack"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came of one mutant."""

    mutant: Case
    level: str = ""
    """At which its rule must speak; empty where the pack has no such rule."""
    verdicts: tuple[Violation, ...] = ()
    """Those that the unchanged stack does not get."""
    problem: str = ""
    """Why it could not be judged."""

    @property
    def by_its_rule(self) -> tuple[Violation, ...]:
        """Verdicts of the rule that must catch it, at that rule's level."""
        return tuple(one for one in self.verdicts if one.policy == self.mutant.rule and one.level == self.level)

    @property
    def killed(self) -> bool:
        """Whether its rule caught it."""
        return not self.problem and bool(self.by_its_rule)

    @property
    def explanation(self) -> str:
        """Why it lives."""
        if self.problem:
            return self.problem
        others = ", ".join(sorted({f"{one.policy} ({one.level})" for one in self.verdicts})) or "no rule"
        return f"{self.mutant.rule} ({self.level or 'not in the pack'}) must catch it, {others} did"


class Pack(PolicyRun):
    """The pack's process, asked about many recordings. Use as a context manager."""

    def __init__(self) -> None:
        super().__init__(PACK, project=NAMESPACE, stack="mutants", config={})
        self._asked: dict[str, RecordedResource] = {}
        self._on_their_way: list[tuple[str, Any]] = []

    def __enter__(self) -> Pack:
        self._channel = grpc.insecure_channel(f"127.0.0.1:{self._wait_for_port()}")
        self._stub: Any = analyzer_pb2_grpc.AnalyzerStub(self._channel)
        self._info = self._stub.GetAnalyzerInfo(empty_pb2.Empty(), timeout=_SECONDS)
        return self

    def close(self) -> None:
        """End the process."""
        if hasattr(self, "_channel"):
            self._channel.close()
        super().close()

    @property
    def rules(self) -> Mapping[str, PackRule]:
        """Its rules by name."""
        kinds: dict[int, Literal["resource", "stack"]] = {
            analyzer_pb2.POLICY_TYPE_RESOURCE: "resource",
            analyzer_pb2.POLICY_TYPE_STACK: "stack",
        }
        return {
            one.name: PackRule(one.name, LEVELS[one.enforcementLevel], kinds[one.policy_type])
            for one in self._info.policies
        }

    def configure(self, recording: Recording, config: Mapping[str, Any]) -> None:
        """Take over a stack's configuration of the rules, for all that is asked from now on."""
        messages = PolicyMessages(recording)
        self._stub.ConfigureStack(messages.configure_stack({}), timeout=_SECONDS)
        states = messages.states(self._info, config, config_file(recording.stack))
        self._stub.Configure(messages.configure(states), timeout=_SECONDS)

    def ask(self, recording: Recording, resources: Iterable[RecordedResource], *, stack: bool) -> Asked:
        """Send what is to be judged. The answers of resource rules are awaited later."""
        messages = PolicyMessages(recording)
        if stack:
            # Stack rules read the last inputs that the pack was asked about: other mutants' must not be among them.
            _await(self._on_their_way)
        questions = self._inputs(messages, resources)
        if stack:
            stale = [one for one in recording.resources if self._asked.get(one.urn) is not one]
            _await([*questions, *self._inputs(messages, stale)])
            request = messages.analyze_stack()
            questions.append((recording.resources[0].urn, self._stub.AnalyzeStack.future(request, timeout=_SECONDS)))
            _await(questions)
        self._on_their_way = questions if stack else [*self._on_their_way, *questions]
        return Asked(questions)

    def _inputs(self, messages: PolicyMessages, resources: Iterable[RecordedResource]) -> list[tuple[str, Any]]:
        judged = [one for one in resources if one.type != STACK_REFERENCE_TYPE]
        self._asked |= {one.urn: one for one in judged}
        return [(one.urn, self._stub.Analyze.future(messages.analyze(one), timeout=_SECONDS)) for one in judged]


def _await(questions: Iterable[tuple[str, Any]]) -> None:
    for _, question in questions:
        question.exception()


@dataclass(frozen=True, slots=True)
class Asked:
    """Questions on their way."""

    questions: Sequence[tuple[str, Any]]

    def verdicts(self) -> frozenset[Violation]:
        """What the pack answered. Raises grpc.RpcError where a rule broke."""
        return frozenset(
            Violation(
                policy=one.policyName,
                level=LEVELS[one.enforcementLevel],
                urn=one.urn or urn,
                message=one.message,
            )
            for urn, question in self.questions
            for one in question.result().diagnostics
        )


def judge_stack(pack: Pack, stack: str, config: Mapping[str, Any] | None = None) -> frozenset[Violation]:
    """Every verdict on an unchanged stack."""
    recording = recorded_stack(stack)
    pack.configure(recording, config or {})
    return pack.ask(recording, recording.resources, stack=True).verdicts()


def judge_mutants(pack: Pack, mutants: Iterable[Case]) -> tuple[Outcome, ...]:
    """Record, change and judge every mutant; in their order."""
    outcomes: dict[int, Outcome] = {}
    by_config: dict[str, list[tuple[int, Case]]] = {}
    for index, mutant in enumerate(mutants):
        by_config.setdefault(json.dumps([mutant.stack, mutant.policy_config]), []).append((index, mutant))
    for alike in by_config.values():
        # The rules' configuration belongs to the process, so mutants that share one are asked about together.
        first = alike[0][1]
        try:
            normal = judge_stack(pack, first.stack, first.policy_config)
        except ValueError as error:
            outcomes |= {index: Outcome(mutant=mutant, problem=str(error)) for index, mutant in alike}
            continue
        asked: list[tuple[int, Case, Asked]] = []
        for index, mutant in alike:
            try:
                asked.append((index, mutant, _ask(pack, mutant)))
            except (ProgramError, SettingsError, LookupError, ValueError, AttributeError) as error:
                outcomes[index] = Outcome(mutant=mutant, problem=f"{type(error).__name__}: {error}")
        for index, mutant, answers in asked:
            rule = pack.rules.get(mutant.rule)
            try:
                verdicts = answers.verdicts() - normal
            except grpc.RpcError as error:
                outcomes[index] = Outcome(mutant=mutant, problem=f"a rule broke: {error.details()}")
                continue
            outcomes[index] = Outcome(
                mutant=mutant,
                level=rule.level if rule else "",
                verdicts=tuple(sorted(verdicts, key=lambda one: (one.policy, one.urn, one.message))),
            )
    return tuple(outcome for _, outcome in sorted(outcomes.items()))


def _ask(pack: Pack, mutant: Case) -> Asked:
    recording = mutated(mutant)
    before = recorded_stack(mutant.stack).by_urn
    changed = [one for one in recording.resources if one != before.get(one.urn)]
    if not changed and recording.by_urn.keys() == before.keys():
        raise ValueError("the stack is as it was")
    rule = pack.rules.get(mutant.rule)
    return pack.ask(recording, changed, stack=rule is None or rule.judges == "stack")


def mutated(mutant: Case) -> Recording:
    """The stack with the mutant's change. Raises where the program fails or an edit finds nothing to change."""
    if mutant.through == "resource":
        return _edited(mutant)
    opened = opened_stack(mutant.stack)
    config = dict(opened.config)
    for section, value in mutant.settings.items():
        key = f"{NAMESPACE}:{section}"
        was = json.loads(config[key]) if key in config else {}
        config[key] = json.dumps(merge(was, value))
    return _record(replace(opened, config=config))


def _record(stack: OfflineStack) -> Recording:
    # A mutant is what passed the checks of the program, or never met them.
    with without_positions(), unchecked(), _no_garbage_collection():
        return record_stack(stack, "known", references_of(stack.file.stack))


def _edited(mutant: Case) -> Recording:
    recording = recorded_stack(mutant.stack)
    resources = {one.name: one for one in recording.resources}
    if len(resources) < len(recording.resources):
        raise ValueError(f"two resources of {mutant.stack} share a name")
    for edit in mutant.edits:
        edit(resources)
    return replace(recording, resources=tuple(resources.values()))


@contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """Recordings are short, and every full collection walks all classes of the SDKs."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def kill_rate(outcomes: Sequence[Outcome]) -> str:
    """The closing line."""
    killed, rules = sum(one.killed for one in outcomes), len({one.mutant.rule for one in outcomes})
    return (
        f"mutants of the policy pack: {killed} of {len(outcomes)} killed ({killed / len(outcomes):.0%}), {rules} rules"
    )


def table(outcomes: Iterable[Outcome]) -> str:
    """Which rule caught which mutant, and who else spoke."""
    lines = []
    for one in outcomes:
        others = sorted({verdict.policy for verdict in one.verdicts} - {one.mutant.rule})
        also = f"; also {', '.join(others)}" if others else ""
        mark = f"killed ({one.level})" if one.killed else f"ALIVE: {one.explanation}"
        lines.append(f"{one.mutant.label}: {mark}{also if one.killed else ''}")
    return "\n".join(lines)


def main(rules: Sequence[str]) -> int:
    """Print the table."""
    from tests.policy.cases import MUTANTS

    with Pack() as pack:
        outcomes = judge_mutants(pack, [one for one in MUTANTS if not rules or one.rule in rules])
    sys.stdout.write(f"{table(outcomes)}\n{kill_rate(outcomes)}\n" if outcomes else "no such mutants\n")
    return 0 if outcomes else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
