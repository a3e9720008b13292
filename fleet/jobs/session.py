"""The cluster of a running stack, for the time of one command."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from fleet.clients.errors import LiveError
from fleet.clients.kubectl import Kubectl
from fleet.clients.stopping import stopped_by_exception

if TYPE_CHECKING:
    from fleet.clients.stack_outputs import StackOutputs
    from settings.stack import Settings


def require_the_same_stack(settings: Settings, outputs: StackOutputs, otherwise: str) -> None:
    """The running stack matches the stack file in project, region, profile and model. Raises LiveError. `otherwise`: what is wrong then."""
    pairs = {
        "gcp:project": (settings.project, outputs.project),
        "gcp:region": (settings.region, outputs.region),
        "the profile": (settings.serving.profile.name, outputs.profile),
        "the model's revision": (settings.serving.model.revision, outputs.model_revision),
    }
    differing = [f"{name} is {up}, in the file {here}" for name, (here, up) in pairs.items() if here != up]
    if differing:
        raise LiveError(
            f"the running stack {settings.stack} differs from its file: {'; '.join(differing)}. {otherwise}; run `pulumi up --stack "
            f"{settings.stack}`, or restore the deployed file"
        )


@contextlib.contextmanager
def cluster_of(
    outputs: StackOutputs, settings: Settings, kubeconfig: Path | None, context: str | None
) -> Iterator[Kubectl]:
    """The stack's cluster and namespace: by the stack's own kubeconfig, unless the user names a kubeconfig or context.

    Raises LiveError, also where the stack's namespace is not there: another cluster.
    """
    with contextlib.ExitStack() as closing:
        # kubectl runs in separate process groups and must be ended here.
        closing.enter_context(stopped_by_exception())
        own = kubeconfig is None and context is None
        file = closing.enter_context(outputs.kubeconfig_file()) if own else kubeconfig
        kubectl = Kubectl(namespace=settings.namespace, kubeconfig=file, context=context)
        if kubectl.find("namespace", settings.namespace) is None:
            named = (
                f"context {context}"
                if context
                else f"--kubeconfig {kubeconfig}"
                if kubeconfig
                else "the stack's kubeconfig"
            )
            raise LiveError(
                f"the cluster of {named} has no namespace {settings.namespace}: it is another cluster than that of stack "
                f"{settings.stack}, or the stack is not up. Omit --kubeconfig and --context to use the stack's own",
                reason="not found",
            )
        yield kubectl
