"""The pack as a server of Pulumi's Analyzer protocol: one policy for each rule, so that each has its own level and settings.

The policy SDK is not used: it converts a resource's properties again for each policy, and tells no policy how the others are
configured. Source of the protocol: pulumi 3.272.0, proto/pulumi/analyzer.proto.
"""
# ruff: noqa: N802

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent import futures
from dataclasses import dataclass, replace
from typing import Any, Final

import grpc  # type: ignore[import-untyped]
from google.protobuf import empty_pb2, json_format  # type: ignore[import-untyped]
from pulumi.runtime.proto import analyzer_pb2 as messages
from pulumi.runtime.proto import analyzer_pb2_grpc, plugin_pb2

import money
import not_asked
import pods
from facts.finding import Finding
from facts.lessons.lesson import Level, Severity
from facts.lessons.verdict import REPEATED_ON_PURPOSE, RULES_NOT_ASKED, encode
from rule import AnyRule, Resource, ResourceRule, Settings, StackRule, complete, finding, with_defaults
from values import UnknownValueError, readable

PACK: Final = "llm-fleet"
_VERSION: Final = "0.0.1"
"""The engine shows the version of PulumiPolicy.yaml instead."""
_MOST_BYTES: Final = 400 * 2**20
"""Of a message: a whole stack is one. As the policy SDK allows."""
_THREADS: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """A policy as the engine sees it: a rule's, or one of the pack's own."""

    name: str
    statement: str
    level: Level
    severity: Severity
    of_stack: bool
    rule: AnyRule | None = None


_EXCUSED: Final = Policy(
    name=REPEATED_ON_PURPOSE,
    statement="A workload that reproduces a published result must list the rules that it breaks on purpose.",
    level="advisory",
    severity="low",
    of_stack=False,
)
_NOT_ASKED: Final = Policy(
    name=RULES_NOT_ASKED, statement=not_asked.STATEMENT, level="advisory", severity="high", of_stack=True
)


@dataclass(frozen=True, slots=True)
class _Configured:
    """One policy with the level and settings of this stack."""

    policy: Policy
    level: int
    settings: Settings

    def says(self, finding: Finding, *, is_mild: bool = False) -> Any:
        """A violation; a mild one is advisory even where the policy is mandatory."""
        # A policy without remediation can only block.
        level = messages.MANDATORY if self.level == messages.REMEDIATE else self.level
        severity = _SEVERITIES[self.policy.severity]
        if is_mild:
            level, severity = messages.ADVISORY, min(severity, messages.POLICY_SEVERITY_MEDIUM)
        return self._diagnostic(f"{self.policy.statement}\n{encode(finding)}", level, finding.subject, severity)

    def cannot_say(self, error: UnknownValueError) -> Any:
        """Why the policy judges nothing in this preview."""
        return self._diagnostic(
            f"can't run policy '{self.policy.name}' from policy pack '{PACK}@v{_VERSION}' during preview: {error}",
            messages.ADVISORY,
        )

    def _diagnostic(self, text: str, level: int, urn: str = "", severity: int = 0) -> Any:
        return messages.AnalyzeDiagnostic(
            policyName=self.policy.name,
            policyPackName=PACK,
            policyPackVersion=_VERSION,
            message=text,
            urn=urn,
            description=self.policy.statement,
            enforcementLevel=level,  # type: ignore[arg-type]
            severity=severity,  # type: ignore[arg-type]
        )


class Analyzer(analyzer_pb2_grpc.AnalyzerServicer):
    """Answers the engine's questions about resources and stacks."""

    def __init__(self, rules: Sequence[AnyRule]) -> None:
        self._rules = rules
        self._policies = (*map(_policy_of, rules), _EXCUSED, _NOT_ASKED)
        self._configure({})
        self._region = ""
        """`gcp:region` of the stack; a resource by itself names none."""
        self._inputs: dict[str, Resource] = {}
        """Every resource with its inputs, which stack rules read where a preview has no outputs."""

    def GetAnalyzerInfo(self, _request: Any, _context: Any) -> Any:
        """Every policy with its level and the schema of its settings."""
        return messages.AnalyzerInfo(
            name=PACK, version=_VERSION, supportsConfig=True, policies=list(map(_info, self._policies))
        )

    def GetPluginInfo(self, _request: Any, _context: Any) -> Any:
        """The pack's version."""
        return plugin_pb2.PluginInfo(version=_VERSION)

    def ConfigureStack(self, request: Any, _context: Any) -> Any:
        """Take the region of the stack's configuration; no rule reads its tags."""
        self._region = request.config.get("gcp:region", "")
        return messages.AnalyzerStackConfigureResponse()

    def Configure(self, request: Any, _context: Any) -> Any:
        """Take level and settings of every policy."""
        self._configure(request.policyConfig)
        return empty_pb2.Empty()

    def Remediate(self, _request: Any, _context: Any) -> Any:
        """Nothing: a person writes what costs or moves money."""
        return messages.RemediateResponse()

    def Analyze(self, request: Any, _context: Any) -> Any:
        """Judge one resource by its inputs."""
        resource = self._inputs[request.urn] = replace(_resource(request), region=self._region)
        return messages.AnalyzeResponse(diagnostics=list(self._of_resource(resource)))

    def AnalyzeStack(self, request: Any, _context: Any) -> Any:
        """Judge a stack by the outputs of its resources.

        In a preview the engine sends no outputs for objects of a cluster that does not exist yet: their inputs stand in. Source:
        pulumi 3.259.0, pkg/resource/plugin/provider_plugin.go (Create), pkg/resource/deploy/step_generator.go (AnalyzeResources).
        """
        urns = {resource.urn for resource in request.resources}
        # The engine's order varies, and messages name resources in order.
        ordered = sorted(request.resources, key=lambda one: one.urn)
        resources = [_stack_resource(one, self._inputs.get(one.urn), urns) for one in ordered]
        return messages.AnalyzeResponse(diagnostics=list(self._of_stack(money.with_region(resources, self._region))))

    def _configure(self, given: Mapping[str, Any]) -> None:
        def one(policy: Policy) -> _Configured:
            level = given[policy.name].enforcementLevel if policy.name in given else _LEVELS[policy.level]
            settings = json_format.MessageToDict(given[policy.name].properties) if policy.name in given else {}
            return _Configured(policy, level, with_defaults(policy.rule, settings) if policy.rule else settings)

        every = [one(policy) for policy in self._policies]
        self._told = tuple(not_asked.told(self._rules, {a.policy.name: (a.level, a.settings) for a in every}))
        # A pack that is disabled as a whole still reports that it is.
        *every, last = every
        every.append(replace(last, level=messages.ADVISORY) if last.level == messages.DISABLED else last)
        self._asked = [one for one in every if one.level != messages.DISABLED]

    def _of_resource(self, resource: Resource) -> Iterator[Any]:
        excused: list[Finding] = []
        for asked in self._asked:
            rule = asked.policy.rule
            if rule is None:
                # Excuses are of rules that were asked before.
                yield from map(asked.says, excused if asked.policy is _EXCUSED else ())
            elif isinstance(rule, ResourceRule):
                try:
                    for made in rule.judge(resource, asked.settings):
                        finding = complete(rule, made, at_stake=money.at_stake(resource))
                        if is_excused(rule, resource):
                            named = f"{rule.name}: {rule.statement}\n{finding.found}"
                            excused.append(replace(finding, found=named))
                        else:
                            yield asked.says(finding, is_mild=made.severity != "error")
                except UnknownValueError as error:
                    yield asked.cannot_say(error)

    def _of_stack(self, resources: Sequence[Resource]) -> Iterator[Any]:
        unseen = sum(1 for resource in resources if resource.is_kubernetes and not resource.props)
        by_urn = {resource.urn: resource for resource in resources}
        for asked in self._asked:
            rule = asked.policy.rule
            if asked.policy is _NOT_ASKED:
                yield from map(asked.says, self._told)
            elif isinstance(rule, StackRule):
                if unseen:
                    yield asked.says(complete(rule, _unjudged(unseen)))
                    continue
                try:
                    for made in rule.judge(resources, asked.settings):
                        stake = money.at_stake(by_urn[made.subject]) if made.subject in by_urn else ""
                        yield asked.says(complete(rule, made, at_stake=stake))
                except UnknownValueError as error:
                    yield asked.cannot_say(error)


def serve(rules: Sequence[AnyRule]) -> None:
    """Serve until the process ends; the first line of output is the port."""
    server = grpc.server(
        futures.ThreadPoolExecutor(max_workers=_THREADS), options=[("grpc.max_receive_message_length", _MOST_BYTES)]
    )
    analyzer_pb2_grpc.add_AnalyzerServicer_to_server(Analyzer(rules), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    sys.stdout.write(f"{port}\n")
    sys.stdout.flush()
    try:
        server.wait_for_termination()
    except KeyboardInterrupt:
        server.stop(0)


def is_excused(rule: ResourceRule, resource: Resource) -> bool:
    """Whether the resource deliberately breaks this rule to reproduce a published result."""
    return rule.name in pods.on_purpose(resource)


def _unjudged(objects: int) -> Finding:
    return finding(
        f"{objects} Kubernetes objects have no outputs in this preview, and no policy was asked about their inputs",
        why="a first preview gives a stack policy the outputs alone; this pack keeps the inputs that its resource policies get",
        write=f"enable a resource policy, for example {REPEATED_ON_PURPOSE}",
    )


_LEVELS: Final[Mapping[Level, int]] = {"advisory": messages.ADVISORY, "mandatory": messages.MANDATORY}
_SEVERITIES: Final[Mapping[Severity, int]] = {
    "low": messages.POLICY_SEVERITY_LOW,
    "medium": messages.POLICY_SEVERITY_MEDIUM,
    "high": messages.POLICY_SEVERITY_HIGH,
    "critical": messages.POLICY_SEVERITY_CRITICAL,
}


def _policy_of(rule: AnyRule) -> Policy:
    return Policy(
        name=rule.name,
        statement=rule.statement,
        level=rule.level,
        severity=rule.severity,
        of_stack=isinstance(rule, StackRule),
        rule=rule,
    )


def _info(policy: Policy) -> Any:
    kind = messages.POLICY_TYPE_STACK if policy.of_stack else messages.POLICY_TYPE_RESOURCE
    info = messages.PolicyInfo(
        name=policy.name,
        description=policy.statement,
        enforcementLevel=_LEVELS[policy.level],  # type: ignore[arg-type]
        severity=_SEVERITIES[policy.severity],  # type: ignore[arg-type]
        policy_type=kind,
    )
    if policy.rule is not None:
        info.tags.append(policy.rule.subject)
        info.remediation_steps = policy.rule.fix
        info.configSchema.properties.update(
            {
                setting.name: _schema(
                    setting.type, setting.default, f"{setting.why} ({setting.unit})" if setting.unit else setting.why
                )
                for setting in policy.rule.settings
            }
        )
    return info


def _schema(type_: str, default: Any, description: str) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": type_, "description": description}
    return schema if default is None else schema | {"default": default}


def _props(one: Any) -> Any:
    return readable(json_format.MessageToDict(one.properties))


def _resource(request: Any) -> Resource:
    return Resource(
        type=request.type,
        props=_props(request),
        name=request.name,
        urn=request.urn,
        protect=request.options.protect,
        ignore_changes=tuple(request.options.ignoreChanges),
    )


def _stack_resource(one: Any, with_inputs: Resource | None, urns: set[str]) -> Resource:
    dependencies = tuple(urn for urn in (*one.dependencies, one.parent) if urn in urns)
    props = _props(one)
    if with_inputs is not None and not props:
        return replace(with_inputs, dependencies=dependencies, parsed={})  # what is parsed refers to its resource
    return Resource(
        type=one.type,
        props=props,
        name=one.name,
        urn=one.urn,
        protect=one.options.protect,
        ignore_changes=tuple(one.options.ignoreChanges),
        dependencies=dependencies,
    )
