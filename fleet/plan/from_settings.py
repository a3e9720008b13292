"""A stack's settings as the planner sees them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from fleet.plan.model.deployment import Deployment
from fleet.plan.question.profiles import ProfileFacts
from settings.sections.engine import effective_environment, effective_flags

if TYPE_CHECKING:
    from settings.stack import Settings


def facts_of_stack(settings: Settings) -> ProfileFacts:
    """What a stack serves, as plain data: its profile, overrides and own model."""
    serving = settings.serving
    return ProfileFacts(
        engine_version=serving.engine.version,
        flags=effective_flags(serving.engine),
        env=effective_environment(serving.engine),
        name=serving.profile.name,
        title=serving.profile.title,
        model=serving.model.id,
        weights_gb=serving.model.size_gb,
        workload=serving.workload,
        context_tokens=serving.context_tokens,
        own_shape=settings.model.config if settings.model else None,
        gpu=settings.machine.gpu,
        # What is laid over a profile is no longer what the row was measured with.
        reproduces=None if serving.overrides else serving.profile.reproduces,
    )


def deployment_of(settings: Settings) -> Deployment:
    """A stack as the model knows fleets. Raises LookupError where the model's architecture is not known."""
    facts, api_servers = facts_of_stack(settings), settings.serving.engine.api_servers
    ranks = facts.shape.data_parallel
    return Deployment(
        nodes=max(1, settings.replicas),
        engine=replace(facts.shape, api_servers=None if api_servers == ranks else api_servers),
        model=facts.model_shape,
        gpu=settings.machine.gpu,
        gpus_per_node=settings.gpus_per_replica,
        routing="inference-gateway" if settings.gateway.enabled else "cluster-ip",
    )
