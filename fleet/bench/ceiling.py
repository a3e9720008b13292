"""A stack's ceiling of cost, before a session that would be stopped by it."""

from __future__ import annotations

from math import ceil
from pathlib import Path
from typing import Final

from facts.finding import Finding
from fleet.preview.policy_config import STOPS, Declared, PolicyError, config_file, merge, read_config
from fleet.report.words import format_usd

CEILING: Final = Declared(
    name="hourly-cost-above-ceiling",
    level="mandatory",
    schema={"maxUsdPerHour": {"type": "number"}, "usdPerNodeHour": {"type": "number"}},
)
"""Source: policy/rules/cost.py; the pack itself answers only about a recorded stack."""


def above_ceiling(folder: Path, stack: str, usd_per_hour: float) -> Finding | None:
    """What the policy would say about a session at that price. None where it would not stop `pulumi up`. Raises PolicyError."""
    given = read_config(folder, stack)
    try:
        (policy,) = merge((CEILING,), {name: given[name] for name in ("all", CEILING.name) if name in given}, "")
    except ValueError as error:
        raise PolicyError(f"{config_file(stack)}: {error}") from error
    allowed = policy.settings.get("maxUsdPerHour")
    # With a contract's price, the policy compares that of the GPU nodes alone.
    if policy.level not in STOPS or allowed is None or policy.settings.get("usdPerNodeHour") is not None:
        return None
    if usd_per_hour <= allowed:
        return None
    return Finding(
        id=policy.name,
        subject=config_file(stack),
        found=f"maxUsdPerHour: {allowed:g}",
        allowed=f"at least {ceil(usd_per_hour)}",
        why=f"the stack costs {format_usd(usd_per_hour)} an hour during the session, and the policy {policy.name} would stop `pulumi up`",
        write=f'"{policy.name}": {{"maxUsdPerHour": {ceil(usd_per_hour)}}}',
    )
