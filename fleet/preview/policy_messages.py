"""The messages of Pulumi's Analyzer protocol, made from a recording."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from google.protobuf import json_format  # type: ignore[import-untyped]
from pulumi.runtime.proto import analyzer_pb2

from fleet.preview.policy_config import LEVELS, Declared, Given, PolicyState, merge
from fleet.preview.record.recording import ORGANIZATION, Alias, RecordedResource, Recording, urn_of
from fleet.preview.record.wire import encode_struct

_SECONDS: Final[Mapping[str, float]] = {"ms": 0.001, "s": 1, "m": 60, "h": 3600}


class PolicyMessages:
    """Requests about one recording."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording

    def configure_stack(self, config: Mapping[str, str]) -> analyzer_pb2.AnalyzerStackConfigureRequest:
        """Which stack the rules are about, and its configuration without secrets."""
        return analyzer_pb2.AnalyzerStackConfigureRequest(
            stack=self._recording.stack,
            project=self._recording.project,
            organization=ORGANIZATION,
            dry_run=True,
            config=config,
        )

    def states(self, info: Any, given: Given, file: str) -> tuple[PolicyState, ...]:
        """Level and settings of every policy of the pack. Raises ValueError as `merge` does."""
        return merge((_declared(policy, info) for policy in info.policies), given, file)

    def configure(self, states: Iterable[PolicyState]) -> analyzer_pb2.ConfigureAnalyzerRequest:
        """Every level and every setting: the pack merges nothing itself, and takes a level left out for "advisory"."""
        return analyzer_pb2.ConfigureAnalyzerRequest(
            policyConfig={
                state.name: analyzer_pb2.PolicyConfig(
                    enforcementLevel=analyzer_pb2.EnforcementLevel.Value(state.level.upper()),
                    properties=encode_struct(dict(state.settings)),
                )
                for state in states
            }
        )

    def analyze(self, resource: RecordedResource) -> analyzer_pb2.AnalyzeRequest:
        """One resource as its rules see it: by its inputs."""
        return analyzer_pb2.AnalyzeRequest(
            type=resource.type,
            properties=encode_struct(dict(resource.inputs), unwrap_secrets=True),
            urn=resource.urn,
            name=resource.name,
            options=self._options(resource),
            provider=self._provider(resource),
        )

    def analyze_stack(self) -> analyzer_pb2.AnalyzeStackRequest:
        """All resources with what a first preview knows of their outputs: nothing of the objects of a cluster.

        Source: pulumi 3.259.0, pkg/resource/plugin/provider_plugin.go (Create): a provider with an unknown configuration is not
        asked, and the outputs are empty.
        """
        return analyzer_pb2.AnalyzeStackRequest(
            resources=[
                analyzer_pb2.AnalyzerResource(
                    type=resource.type,
                    properties=encode_struct(
                        {} if resource.is_kubernetes else dict(resource.outputs), unwrap_secrets=True
                    ),
                    urn=resource.urn,
                    name=resource.name,
                    options=self._options(resource),
                    provider=self._provider(resource),
                    parent=resource.parent,
                    dependencies=resource.dependencies,
                    propertyDependencies={
                        key: analyzer_pb2.AnalyzerPropertyDependencies(urns=urns)
                        for key, urns in resource.property_dependencies.items()
                    },
                )
                for resource in self._recording.resources
            ]
        )

    def _options(self, resource: RecordedResource) -> analyzer_pb2.AnalyzerResourceOptions:
        timeouts = analyzer_pb2.AnalyzerResourceOptions.CustomTimeouts(
            **{key: seconds(text) for key, text in resource.custom_timeouts.items() if key != "read"}
        )
        return analyzer_pb2.AnalyzerResourceOptions(
            protect=resource.protect,
            ignoreChanges=resource.ignore_changes,
            deleteBeforeReplace=bool(resource.delete_before_replace),
            deleteBeforeReplaceDefined=resource.delete_before_replace is not None,
            additionalSecretOutputs=resource.additional_secret_outputs,
            aliases=[self._former_urn(resource, alias) for alias in resource.aliases],
            customTimeouts=timeouts,
            parent=resource.parent,
        )

    def _provider(self, resource: RecordedResource) -> analyzer_pb2.AnalyzerProviderResource | None:
        provider = self._recording.by_urn.get(resource.provider.rpartition("::")[0])
        if provider is None:
            return None
        return analyzer_pb2.AnalyzerProviderResource(
            type=provider.type,
            properties=encode_struct(dict(provider.inputs), unwrap_secrets=True),
            urn=provider.urn,
            name=provider.name,
        )

    def _former_urn(self, resource: RecordedResource, alias: Alias) -> str:
        return alias.urn or urn_of(
            stack=alias.stack or self._recording.stack,
            project=alias.project or self._recording.project,
            parent="" if alias.no_parent else alias.parent_urn or resource.parent,
            type_=alias.type or resource.type,
            name=alias.name or resource.name,
        )


def _declared(policy: Any, info: Any) -> Declared:
    """A policy as the pack's own answer describes it."""
    initial = None
    if policy.name in info.initialConfig:
        own = info.initialConfig[policy.name]
        initial = {**json_format.MessageToDict(own.properties), "enforcementLevel": LEVELS[own.enforcementLevel]}
    return Declared(
        name=policy.name,
        level=LEVELS[policy.enforcementLevel],
        schema={key: json_format.MessageToDict(schema) for key, schema in policy.configSchema.properties.items()},
        required=tuple(policy.configSchema.required),
        initial=initial,
    )


def seconds(duration: str) -> float:
    """A duration such as "1h30m" in seconds."""
    parts = re.findall(r"([\d.]+)(ms|[smh])", duration)
    if not parts or "".join(number + unit for number, unit in parts) != duration:
        raise ValueError(f"the custom timeout {duration!r} is no duration; write it like 90s, 60m or 1h30m")
    return sum(float(number) * _SECONDS[unit] for number, unit in parts)
