"""`fleet spending`: what the spending guard of a stack has counted."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from fleet.cli.exits import CLEAN, FINDINGS, CommandError
from fleet.cli.options import Context, Kubeconfig, Outputs, Root, Stack

if TYPE_CHECKING:
    from fleet.clients.kubectl import Manifest
    from settings.sections.spending import Spending


def spending(
    stack: Stack = None,
    outputs: Outputs = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    root: Root = None,
) -> int:
    """Show how much of a stack's spending limit is used, whether it is paused, and how to resume.

    Exits with 1 while the stack is paused or no guard is running. Changes nothing: raise a limit in the stack file.
    """
    from fleet.cli.project import find_root, require_stack

    folder = find_root(root)
    name = require_stack(folder, stack)
    from fleet.clients import stack_outputs
    from fleet.clients.kubectl import Kubectl
    from settings.load import parse
    from settings.stack_file import read
    from workloads.names import SPENDING_APP
    from workloads.spending.guard import QUOTA, STATE

    file = read(folder, name)
    settings = parse(name, file.config, file.unopened)
    terms = settings.spending
    if terms is None:
        raise CommandError(f"Pulumi.{name}.yaml has no vllm-fleet:spending; see docs/spending.md")
    found_outputs = None if kubeconfig or context else stack_outputs.read(name, folder, outputs)
    with found_outputs.kubeconfig_file() if found_outputs else contextlib.nullcontext(kubeconfig) as config:
        kubectl = Kubectl(namespace=settings.namespace, kubeconfig=config, context=context)
        kept = (kubectl.get("configmap", STATE).get("data") or {}).get("state")
        paused = kubectl.find("resourcequota", QUOTA) is not None
        deployment = kubectl.find("deployment", SPENDING_APP)
    state = json.loads(kept) if kept else {}
    counts = bool(deployment and deployment.get("status", {}).get("readyReplicas"))
    sys.stdout.write("".join(f"{line}\n" for line in _lines(name, terms, state, paused=paused, counts=counts)))
    return FINDINGS if paused or not counts or not state else CLEAN


def _lines(stack: str, terms: Spending, state: Manifest, *, paused: bool, counts: bool) -> Iterator[str]:
    if not counts:
        yield f"{stack}: the guard is not running; its pod is not ready"
    if not state:
        yield f"{stack}: nothing counted yet"
        return
    limit = "" if terms.limit is None else f" of ${terms.limit:,.2f}"
    until, rate, lower = (
        datetime.fromtimestamp(state["at"], UTC),
        state["usdPerHour"],
        "at least " * bool(state["unpriced"]),
    )
    spent = f"{lower}${state['usd']:,.2f}{limit} spent from {state['from']} to {until:%Y-%m-%dT%H:%M:%SZ}"
    yield f"{stack}: {spent}, now ${rate:,.2f} an hour"
    if state["unpriced"]:
        yield f"  not included, price unknown: {', '.join(state['unpriced'])}"
    if state["unknown"]:
        yield f"  unreliable: {state['unknown']}; change spending.since to start a new sum"
    if paused:
        setting = {"until": "until: a later moment", "unknown": "onUnknown: warn"}.get(state["reason"], "limit: more")
        yield f"  paused; to resume, write vllm-fleet:spending: {{{setting}}} in Pulumi.{stack}.yaml, then run pulumi up --stack {stack}"
    elif terms.limit is not None and rate > 0:
        yield f"  at this rate the limit is reached in {max(0.0, terms.limit - state['usd'] - state['owed']) / rate:,.1f} h"
