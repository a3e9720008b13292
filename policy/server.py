"""The pack as a server of Pulumi's Analyzer protocol: one policy for each rule, so that each has its own level and settings.

The policy SDK is not used: it converts a resource's properties again for each policy. Source of the protocol: pulumi 3.272.0,
proto/pulumi/analyzer.proto.
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
import pods
from facts.finding import Finding
from facts.lessons.lesson import Level, Rule, Severity
from facts.lessons.verdict import REPEATED_ON_PURPOSE, encode
from rule import AnyRule, Resource, ResourceRule, Settings, StackRule, complete, finding, with_defaults
from values import UnknownValueError, readable

PACK: Final = "llm-fleet"
_VERSION: Final = "0.0.1"
"""The engine shows the version of PulumiPolicy.yaml instead."""
_MOST_BYTES: Final = 400 * 2**20
"""Of a message: a whole stack is one. As the policy SDK allows."""
_THREADS: Final = 4


_EXCUSED: Final = Rule(
    name=REPEATED_ON_PURPOSE,
    statement="A workload that reproduces a published result must list the rules that it breaks on purpose.",
    evidence="",
    fix="nothing, while it reproduces that result",
    level="advisory",
    severity="low",
)
"""The pack's own policy, which has no judge: it repeats what others find and a published result excuses."""


@dataclass(frozen=True, slots=True)
class _Configured:
    """One rule with the level and settings of this stack."""

    rule: Rule
    level: int
    settings: Settings

    def says(self, finding: Finding, *, is_mild: bool = False) -> Any:
        """A violation; a mild one is advisory even where the policy is mandatory."""
        # A policy without remediation can only block.
        level = messages.MANDATORY if self.level == messages.REMEDIATE else self.level
        severity = _SEVERITIES[self.rule.severity]
        if is_mild:
            level, severity = messages.ADVISORY, min(severity, messages.POLICY_SEVERITY_MEDIUM)
        return self._diagnostic(f"{self.rule.statement}\n{encode(finding)}", level, finding.subject, severity)

    def cannot_say(self, error: UnknownValueError) -> Any:
        """Why the policy judges nothing in this preview."""
        return self._diagnostic(
            f"can't run policy '{self.rule.name}' from policy pack '{PACK}@v{_VERSION}' during preview: {error}",
            messages.ADVISORY,
        )

    def _diagnostic(self, text: str, level: int, urn: str = "", severity: int = 0) -> Any:
        return messages.AnalyzeDiagnostic(
            policyName=self.rule.name,
            policyPackName=PACK,
            policyPackVersion=_VERSION,
            message=text,
            urn=urn,
            description=self.rule.statement,
            enforcementLevel=level,  # type: ignore[arg-type]
            severity=severity,  # type: ignore[arg-type]
        )


class Analyzer(analyzer_pb2_grpc.AnalyzerServicer):
    """Answers the engine's questions about resources and stacks."""

    def __init__(self, rules: Sequence[AnyRule]) -> None:
        self._rules = (*rules, _EXCUSED)
        self._configure({})
        self._region = ""
        """`gcp:region` of the stack; a resource by itself names none."""
        self._inputs: dict[str, Resource] = {}
        """Every resource with its inputs, which stack rules read where a preview has no outputs."""

    def GetAnalyzerInfo(self, _request: Any, _context: Any) -> Any:
        """Every policy with its level and the schema of its settings."""
        return messages.AnalyzerInfo(
            name=PACK, version=_VERSION, supportsConfig=True, policies=list(map(_info, self._rules))
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
        # The engine's order varies, and messages name resources in order.
        ordered = sorted(request.resources, key=lambda one: one.urn)
        resources = [_stack_resource(one, self._inputs.get(one.urn)) for one in ordered]
        return messages.AnalyzeResponse(diagnostics=list(self._of_stack(money.with_region(resources, self._region))))

    def _configure(self, given: Mapping[str, Any]) -> None:
        def configured(rule: Rule) -> _Configured:
            level = given[rule.name].enforcementLevel if rule.name in given else _LEVELS[rule.level]
            settings = json_format.MessageToDict(given[rule.name].properties) if rule.name in given else {}
            return _Configured(rule, level, with_defaults(rule, settings))

        self._asked = [one for one in map(configured, self._rules) if one.level != messages.DISABLED]

    def _of_resource(self, resource: Resource) -> Iterator[Any]:
        excused: list[Finding] = []
        for asked in self._asked:
            rule = asked.rule
            if rule is _EXCUSED:
                # Of rules that were asked before.
                yield from map(asked.says, excused)
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
            rule = asked.rule
            if isinstance(rule, StackRule):
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


def _info(rule: Rule) -> Any:
    kind = messages.POLICY_TYPE_STACK if isinstance(rule, StackRule) else messages.POLICY_TYPE_RESOURCE
    info = messages.PolicyInfo(
        name=rule.name,
        description=rule.statement,
        enforcementLevel=_LEVELS[rule.level],  # type: ignore[arg-type]
        severity=_SEVERITIES[rule.severity],  # type: ignore[arg-type]
        policy_type=kind,
        remediation_steps=rule.fix,
        tags=[rule.subject],
    )
    info.configSchema.properties.update(
        {
            setting.name: _schema(
                setting.type, setting.default, f"{setting.why} ({setting.unit})" if setting.unit else setting.why
            )
            for setting in rule.settings
        }
    )
    return info


def _schema(type_: str, default: Any, description: str) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": type_, "description": description}
    return schema if default is None else schema | {"default": default}


def _props(one: Any) -> Any:
    return readable(json_format.MessageToDict(one.properties))


def _resource(one: Any) -> Resource:
    return Resource(
        type=one.type,
        props=_props(one),
        name=one.name,
        urn=one.urn,
        protect=one.options.protect,
        ignore_changes=tuple(one.options.ignoreChanges),
    )


def _stack_resource(one: Any, with_inputs: Resource | None) -> Resource:
    resource = _resource(one)
    if with_inputs is None or resource.props:
        return resource
    return replace(with_inputs, parsed={})  # what is parsed refers to its resource
