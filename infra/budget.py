"""A monthly billing budget that sends warnings."""

from __future__ import annotations

from dataclasses import dataclass

import pulumi
import pulumi_gcp as gcp
from pulumi_gcp import billing

from infra.naming import MAX_BUDGET_TITLE, title
from settings.sections.budget import Budget as BudgetSection

THRESHOLDS = (0.5, 0.9, 1.0)
"""Shares of the amount that send a warning; 1.0 is 100 %."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetArgs:
    """Arguments of `Budget`."""

    project: str
    """Id of the project to watch, which also pays for the API requests."""
    project_number: pulumi.Input[str]
    """Project number; budgets do not accept project ids."""
    budget: BudgetSection
    """Billing account (in USD) and monthly amount."""


class Budget(pulumi.ComponentResource):
    """Emails the billing account's administrators at each threshold. It stops nothing; `replicas: 0` and `spending` do.

    It covers the whole project. A filter on the stack's label would miss unlabeled costs (NAT traffic, load
    balancers, disks created by Kubernetes) and warn too late.
    """

    def __init__(self, name: str, args: BudgetArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("vllm-fleet:infra:Budget", name, None, opts)
        # The budgets API refuses user credentials unless each request names a billing project.
        # Source: Terraform google provider, billing_budget, "user_project_override".
        provider = gcp.Provider(
            f"{name}-gcp",
            project=args.project,
            billing_project=args.project,
            user_project_override=True,
            opts=pulumi.ResourceOptions(parent=self),
        )
        billing.Budget(
            f"{name}-month",
            billing_account=args.budget.billing_account,
            display_name=title(f"vllm-fleet {pulumi.get_stack()} ({args.project})", MAX_BUDGET_TITLE),
            amount=billing.BudgetAmountArgs(
                specified_amount=billing.BudgetAmountSpecifiedAmountArgs(
                    currency_code="USD", units=str(args.budget.usd_per_month)
                )
            ),
            budget_filter=billing.BudgetBudgetFilterArgs(
                projects=[pulumi.Output.format("projects/{0}", args.project_number)],
                calendar_period="MONTH",
            ),
            threshold_rules=[
                billing.BudgetThresholdRuleArgs(threshold_percent=share, spend_basis="CURRENT_SPEND")
                for share in THRESHOLDS
            ],
            opts=pulumi.ResourceOptions(parent=self, provider=provider),
        )
        self.register_outputs({})
