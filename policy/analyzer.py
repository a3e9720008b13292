"""Rules as policies of Pulumi's policy SDK: one policy for each rule, so that each has its own level and settings."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Any

from pulumi_policy import (
    EnforcementLevel,
    Policy,
    PolicyConfigSchema,
    PolicyResource,
    ReportViolation,
    ResourceValidationArgs,
    ResourceValidationPolicy,
    Severity,
    StackValidationArgs,
    StackValidationPolicy,
)

import money
import not_asked
import pods
from facts.lessons.verdict import REPEATED_ON_PURPOSE
from rule import AnyRule, Finding, Resource, Rule, StackRule, message, with_defaults


class _Asked(threading.local):
    """The resource or stack that a thread evaluates.

    The SDK evaluates all policies for one resource in one thread, in order. They share one view of it, and excused findings
    are kept here until the pack's last policy reports them.
    """

    def __init__(self, by_urn: dict[str, Resource]) -> None:
        """`by_urn` keeps every resource with its inputs; shared by all threads."""
        self._by_urn = by_urn
        self._resource = Resource(type="", props={})
        self._stack: list[Resource] = []
        self._seen: object = None
        self._last = -1
        self.excused: list[str] = []

    def resource(self, args: ResourceValidationArgs, place: int) -> Resource:
        """The resource, for the policy at that position in the pack; shared by all policies while the SDK shares its view."""
        if self._resource.urn != args.urn or place <= self._last:
            self.excused = []
        self._last = place
        if self._resource.props is not args.props or self._resource.urn != args.urn:
            self._resource = self._by_urn[args.urn] = _resource(args)
        return self._resource

    def stack(self, args: StackValidationArgs) -> list[Resource]:
        """The resources, the same objects for every policy, with their outputs.

        In a preview the engine sends no outputs for objects of a cluster that does not exist yet: their inputs stand in. Source:
        pulumi 3.259.0, pkg/resource/plugin/provider_plugin.go (Create), pkg/resource/deploy/step_generator.go (AnalyzeResources).
        """
        # The SDK keeps its views during one evaluation, so comparing the first is enough.
        first = args.resources[0].props if args.resources else None
        if first is None or first is not self._seen:
            self._seen = first
            # The engine's order varies, and messages name resources in order.
            ordered = sorted(args.resources, key=lambda one: one.urn)
            self._stack = [_stack_resource(one, self._by_urn.get(one.urn)) for one in ordered]
        return self._stack


def policies(rules: tuple[AnyRule, ...], configured: not_asked.Configured) -> list[Policy]:
    """One policy for each rule, then those that report deliberate exceptions and rules that are not asked."""
    asked = _Asked({})
    made = [
        _resource_policy(rule, asked, place) if isinstance(rule, Rule) else _stack_policy(rule, asked)
        for place, rule in enumerate(rules)
    ]
    return [*made, _repeated_on_purpose(asked, len(rules)), not_asked.policy(rules, configured)]


def _resource_policy(rule: Rule, asked: _Asked, place: int) -> Policy:
    def validate(args: ResourceValidationArgs, report: ReportViolation) -> None:
        resource = asked.resource(args, place)
        for finding in rule.judge(resource, with_defaults(rule, args.get_config())):
            stake = money.at_stake(resource)
            if is_excused(rule, resource):
                named = replace(finding, what=f"{rule.name}: {rule.statement}\n{finding.what}")
                asked.excused.append(message(rule, named, at_stake=stake))
            else:
                report(message(rule, finding, at_stake=stake), None)

    return ResourceValidationPolicy(validate=validate, **_description(rule))


def is_excused(rule: Rule, resource: Resource) -> bool:
    """Whether the resource deliberately breaks this rule to reproduce a published result."""
    return bool(rule.lesson) and rule.lesson in pods.on_purpose(resource)


def _stack_policy(rule: StackRule, asked: _Asked) -> Policy:
    def validate(args: StackValidationArgs, report: ReportViolation) -> None:
        resources = asked.stack(args)
        if unseen := sum(1 for one in resources if one.is_kubernetes and not one.props):
            report(message(rule, _unjudged(unseen)), None)
            return
        for finding in rule.judge(resources, with_defaults(rule, args.get_config())):
            concerned = next((one for one in resources if one.urn == finding.urn), None)
            stake = "" if concerned is None else money.at_stake(concerned)
            report(message(rule, finding, at_stake=stake), finding.urn or None)

    return StackValidationPolicy(validate=validate, **_description(rule))


def _unjudged(objects: int) -> Finding:
    return Finding(
        what=f"{objects} Kubernetes objects have no outputs in this preview, and no policy was asked about their inputs",
        why="a first preview gives a stack policy the outputs alone; this pack keeps the inputs that its resource policies get",
        fix=f"enable a resource policy, for example {REPEATED_ON_PURPOSE}",
    )


def _repeated_on_purpose(asked: _Asked, place: int) -> Policy:
    def validate(args: ResourceValidationArgs, report: ReportViolation) -> None:
        # Clears exceptions of other resources.
        asked.resource(args, place)
        messages, asked.excused = asked.excused, []
        for text in messages:
            report(text, None)

    return ResourceValidationPolicy(
        name=REPEATED_ON_PURPOSE,
        description="A workload that reproduces a published result must list the rules that it breaks on purpose.",
        validate=validate,
        enforcement_level=EnforcementLevel.ADVISORY,
        severity=Severity.LOW,
    )


def _description(rule: AnyRule) -> dict[str, Any]:
    properties = {one.name: _schema(one.type, one.default, f"{one.why} ({one.unit})" if one.unit else one.why)
                  for one in rule.settings}  # fmt: skip
    return {
        "name": rule.name,
        "description": rule.statement,
        "enforcement_level": EnforcementLevel(rule.level),
        "severity": Severity(rule.severity),
        "config_schema": PolicyConfigSchema(properties=properties) if properties else None,
        "remediation_steps": rule.fix,
        "tags": [rule.subject],
    }


def _schema(type_: str, default: Any, description: str) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": type_, "description": description}
    return schema if default is None else schema | {"default": default}


def _resource(args: ResourceValidationArgs) -> Resource:
    timeouts = args.opts.custom_timeouts
    return Resource(
        type=args.resource_type,
        props=args.props,
        name=args.name,
        urn=args.urn,
        protect=bool(args.opts.protect),
        ignore_changes=tuple(args.opts.ignore_changes),
        timeouts={"create": timeouts.create_seconds, "update": timeouts.update_seconds},
    )


def _stack_resource(one: PolicyResource, with_inputs: Resource | None) -> Resource:
    dependencies = tuple(other.urn for other in (*one.dependencies, one.parent) if other is not None)
    if with_inputs is not None and not one.props:
        return replace(with_inputs, dependencies=dependencies, parsed={})  # what is parsed refers to its resource
    return Resource(
        type=one.resource_type,
        props=one.props,
        name=one.name,
        urn=one.urn,
        protect=bool(one.opts.protect),
        ignore_changes=tuple(one.opts.ignore_changes),
        dependencies=dependencies,
    )
