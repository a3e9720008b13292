"""`fleet spending`: what the spending guard of a stack has counted."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from facts.names import SPENDING_APP, spending_namespace
from fleet.cli.exits import CLEAN, FINDINGS, CommandError
from fleet.cli.fields import with_fields
from fleet.cli.options import Live, OneStack

if TYPE_CHECKING:
    from settings.sections.spending import Spending
    from workloads.spending.total import Sum


@with_fields
def spending(of: OneStack, live: Live) -> int:
    """Show how much of a stack's spending limit is used, whether it is paused, and how to resume.

    Exits with 1 while the stack is paused or no guard is running. Changes nothing: raise a limit in the stack file.
    """
    folder, name = of.find()
    from fleet.clients import stack_outputs
    from fleet.clients.kubectl import Kubectl
    from settings.load import parse
    from settings.stack_file import read
    from workloads.spending.guard import QUOTA
    from workloads.spending.total import STATE, Sum

    file = read(folder, name)
    settings = parse(name, file.config, file.unopened)
    terms = settings.spending
    if terms is None:
        raise CommandError(f"Pulumi.{name}.yaml has no vllm-fleet:spending; see docs/spending.md")
    home = spending_namespace(settings.namespace)
    outputs = None if live.names_cluster else stack_outputs.read(name, folder, live.outputs)
    with outputs.kubeconfig_file() if outputs else contextlib.nullcontext(live.kubeconfig) as config:
        there, guards = (
            Kubectl(namespace=one, kubeconfig=config, context=live.context) for one in (settings.namespace, home)
        )
        kept = ((guards.find("configmap", STATE) or {}).get("data") or {}).get("state")
        paused = there.find("resourcequota", QUOTA) is not None
        deployment = guards.find("deployment", SPENDING_APP)
    counts = bool(deployment and (deployment.get("status") or {}).get("readyReplicas"))
    if not counts:
        told = f"its pod in namespace {home} is not ready" if deployment else f"pulumi up --stack {name} makes it"
        sys.stdout.write(f"{name}: the guard is not running; {told}\n")
    if kept is None:
        sys.stdout.write(f"{name}: nothing counted yet\n")
        return FINDINGS
    try:
        state = Sum.read(kept)
    except ValueError:
        # Its text is not shown: it may be anything.
        sys.stdout.write(
            f"{name}: the sum in ConfigMap {home}/{STATE} is damaged; a guard that starts counts from zero\n"
        )
        return FINDINGS
    sys.stdout.write("".join(f"{line}\n" for line in _lines(name, terms, state, paused=paused)))
    return FINDINGS if paused or not counts else CLEAN


def _lines(stack: str, terms: Spending, state: Sum, *, paused: bool) -> Iterator[str]:
    limit = "" if terms.limit is None else f" of ${terms.limit:,.2f}{' a month' * (terms.every == 'month')}"
    until, lower = datetime.fromtimestamp(state.at, UTC), "at least " * bool(state.unpriced)
    spent = f"{lower}${state.usd:,.2f}{limit} spent from {state.began} to {until:%Y-%m-%dT%H:%M:%SZ}"
    yield f"{stack}: {spent}, now ${state.usd_per_hour:,.2f} an hour"
    if state.unpriced:
        yield f"  not included, price unknown: {', '.join(state.unpriced)}"
    if paused:
        setting = "until: a later moment" if state.reason == "until" else "limit: more"
        waits = "; the next month resumes it too" if terms.every == "month" and state.reason == "limit" else ""
        yield (
            f"  paused; to resume, write vllm-fleet:spending: {{{setting}}} in Pulumi.{stack}.yaml, then run pulumi up --stack "
            f"{stack}{waits}"
        )
    elif terms.limit is not None and state.usd_per_hour > 0:
        left = max(0.0, terms.limit - state.usd - state.owed)
        yield f"  at this rate the limit is reached in {left / state.usd_per_hour:,.1f} h"
