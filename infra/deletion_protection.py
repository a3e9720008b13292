"""Refuses to destroy a stack before anything of it is deleted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pulumi


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletionProtectionArgs:
    """Arguments of `DeletionProtection`."""

    enabled: bool
    """Whether the stack is protected. To destroy it, update it with False first."""
    covers: Sequence[pulumi.Resource]
    """Components and resources to protect, e.g. `everything_from_now_on`; of a component, everything it contains."""


def everything_from_now_on() -> list[pulumi.Resource]:
    """The running program's resources, each when it is made."""
    found: list[pulumi.Resource] = []

    def note(args: pulumi.ResourceTransformationArgs) -> None:
        found.append(args.resource)

    pulumi.runtime.register_stack_transformation(note)
    return found


class DeletionProtection(pulumi.ComponentResource):
    """A protected component without resources that depends on the whole stack, so that `pulumi destroy` must delete it first.

    A protected cluster alone is not enough: its deletion is refused in the preview, but `pulumi destroy --skip-preview` (`-f`)
    deletes every server, claim and grant that depends on the cluster, and fails only then. Daily changes are not affected: what
    an update removes or replaces is not protected itself.
    """

    def __init__(self, name: str, args: DeletionProtectionArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        own = pulumi.ResourceOptions(depends_on=list(args.covers), protect=args.enabled)
        super().__init__("vllm-fleet:infra:DeletionProtection", name, None, pulumi.ResourceOptions.merge(opts, own))
        self.register_outputs({})
