"""The rules as policies of Pulumi's policy SDK: one policy for each rule, so that each has its own level and settings."""

from __future__ import annotations

import threading
from typing import Any, Final

from pulumi_policy import (
    EnforcementLevel,
    Policy,
    PolicyConfigSchema,
    PolicyResource,
    PolicyResourceOptions,
    ReportViolation,
    ResourceValidationArgs,
    ResourceValidationPolicy,
    Severity,
    StackValidationArgs,
    StackValidationPolicy,
)

import money
import pods
from rule import AnyRule, Options, Resource, Rule, StackRule, message, with_defaults

REPEATED_ON_PURPOSE: Final = "repeated-on-purpose"


class _Excused(threading.local):
    """What the rules found on the resource at hand and its annotation excuses, for the policy that reports it.

    The SDK asks all policies about one resource in one thread, in their order; this pack's last one reports and empties it.
    """

    def __init__(self) -> None:
        self.urn = ""
        self.messages: list[str] = []


def policies(rules: tuple[AnyRule, ...]) -> list[Policy]:
    """One policy for each rule, and last the one that reports what is broken on purpose."""
    excused = _Excused()
    made = [_resource_policy(rule, excused) if isinstance(rule, Rule) else _stack_policy(rule) for rule in rules]
    return [*made, _repeated_on_purpose(excused)]


def _resource_policy(rule: Rule, excused: _Excused) -> Policy:
    def validate(args: ResourceValidationArgs, report: ReportViolation) -> None:
        resource = _resource(args)
        for finding in rule.judge(resource, with_defaults(rule, args.get_config())):
            text = message(rule, finding, at_stake=money.at_stake(resource))
            if rule.lesson and rule.lesson in pods.on_purpose(resource):
                if excused.urn != resource.urn:
                    excused.urn, excused.messages = resource.urn, []
                excused.messages.append(f"{rule.name}: {rule.statement}\n{text}")
            else:
                report(text, None)

    return ResourceValidationPolicy(validate=validate, **_description(rule))


def _stack_policy(rule: StackRule) -> Policy:
    def validate(args: StackValidationArgs, report: ReportViolation) -> None:
        resources = [_stack_resource(one) for one in args.resources]
        for finding in rule.judge(resources, with_defaults(rule, args.get_config())):
            report(message(rule, finding), finding.urn or None)

    return StackValidationPolicy(validate=validate, **_description(rule))


def _repeated_on_purpose(excused: _Excused) -> Policy:
    def validate(args: ResourceValidationArgs, report: ReportViolation) -> None:
        messages, excused.messages = (excused.messages if excused.urn == args.urn else []), []
        for text in messages:
            report(text, None)

    return ResourceValidationPolicy(
        name=REPEATED_ON_PURPOSE,
        description="A workload that reproduces a published result says which rules it breaks for that.",
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
    return Resource(
        type=args.resource_type, props=args.props, name=args.name, urn=args.urn, options=_options(args.opts)
    )


def _stack_resource(one: PolicyResource) -> Resource:
    return Resource(
        type=one.resource_type,
        props=one.props,
        name=one.name,
        urn=one.urn,
        options=_options(one.opts),
        parent=one.parent.urn if one.parent is not None else "",
        dependencies=tuple(other.urn for other in one.dependencies),
    )


def _options(given: PolicyResourceOptions) -> Options:
    return Options(
        protect=bool(given.protect),
        ignore_changes=tuple(given.ignore_changes),
        delete_before_replace=bool(given.delete_before_replace),
    )
