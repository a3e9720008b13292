"""Convert a stack's settings to the planner's types."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from fleet.plan.model.deployment import Deployment
from fleet.plan.question.profiles import ProfileFacts
from settings.sections.engine import effective_environment, effective_flags

if TYPE_CHECKING:
    from settings.stack import Settings


def facts_of_stack(settings: Settings) -> ProfileFacts:
    """A stack's profile with its overrides and own model."""
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
    )


def deployment_of(settings: Settings) -> Deployment:
    """A stack as a deployment. Raises LookupError if the model's architecture is unknown."""
    if settings.serving.shape is None:
        # Its name may be like one of the catalogue's.
        raise LookupError(f"the architecture of {settings.serving.model.id} is not known")
    facts, api_servers = facts_of_stack(settings), settings.serving.engine.api_servers
    ranks = facts.shape.data_parallel
    return Deployment(
        nodes=max(1, settings.replicas),
        engine=replace(facts.shape, api_servers=None if api_servers == ranks else api_servers),
        model=facts.model_shape,
        gpu=settings.machine.gpu,
        gpus_per_node=settings.gpus_per_replica,
        routing="inference-gateway" if settings.has_picker else "cluster-ip",
        slow_product=facts.slow_product,
    )
