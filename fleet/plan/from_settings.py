"""Settings as the planner sees them: profiles as plain data, a stack as a deployment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from fleet.plan.model.deployment import Deployment
from fleet.plan.question.profiles import ProfileFacts
from settings.sections.engine import Engine, effective_environment, effective_flags

if TYPE_CHECKING:
    from settings.profiles import Profile
    from settings.stack import Settings


def facts_of_profile(profile: Profile, overrides: Mapping[str, Any] | None = None) -> ProfileFacts:
    """The profile as plain data, with engine settings (camelCase names) laid over it. Raises pydantic.ValidationError."""
    engine = profile.engine.but(overrides) if overrides else profile.engine
    return _facts(
        engine,
        name=profile.name,
        title=profile.title,
        model=profile.model_id,
        weights_gb=profile.model.size_gb if profile.model else None,
        workload=profile.workload,
        context_tokens=profile.context_tokens,
        # What is laid over it is no longer what the row was measured with.
        reproduces=None if overrides else profile.reproduces,
    )


def facts_of_stack(settings: Settings) -> ProfileFacts:
    """What a stack serves, as plain data: its profile, overrides and own model."""
    serving = settings.serving
    return _facts(
        serving.engine,
        name=serving.profile.name,
        title=serving.profile.title,
        model=serving.model.id,
        weights_gb=serving.model.size_gb,
        workload=serving.workload,
        context_tokens=serving.context_tokens,
        reproduces=None if serving.overrides else serving.profile.reproduces,
    )


def deployment_of(settings: Settings) -> Deployment:
    """A stack as the model knows fleets. Raises LookupError where the model's architecture is not known."""
    facts = facts_of_stack(settings)
    return Deployment(
        nodes=max(1, settings.replicas),
        engine=facts.shape,
        model=facts.model_shape,
        routing="inference-gateway" if settings.gateway.enabled else "cluster-ip",
    )


def _facts(engine: Engine, **rest: Any) -> ProfileFacts:
    return ProfileFacts(
        engine_version=engine.version, flags=effective_flags(engine), env=effective_environment(engine), **rest
    )
