"""A billing budget that warns before the month's money is gone."""

from __future__ import annotations

from dataclasses import dataclass

import pulumi
import pulumi_gcp as gcp
from pulumi_gcp import billing

from infra.naming import MAX_BUDGET_TITLE, Place, title
from settings.sections.budget import Budget as BudgetSection


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetArgs:
    """Arguments of `Budget`."""

    place: Place
    """The project whose cost is watched, and which pays for the requests; the fleet's name is in the mail's subject."""
    project_number: pulumi.Input[str]
    """Number of the project; budgets do not know project ids."""
    budget: BudgetSection
    """Billing account, which must be in USD; the month's amount; and the shares of it that send a warning."""


class Budget(pulumi.ComponentResource):
    """Mails the billing account's administrators at each threshold. It stops nothing: `replicas: 0` and a limit of `spending` do.

    It counts the whole project. A filter on the stack's label would miss what carries no label (NAT traffic, load
    balancers, disks that Kubernetes makes), and a budget that counts too little warns too late.
    """

    def __init__(self, name: str, args: BudgetArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("vllm-fleet:infra:Budget", name, None, opts)
        # The budgets API refuses a person's own credentials unless each request names a project that pays for it.
        # Source: Terraform google provider, billing_budget, "user_project_override".
        provider = gcp.Provider(
            f"{name}-gcp",
            project=args.place.project,
            billing_project=args.place.project,
            user_project_override=True,
            opts=pulumi.ResourceOptions(parent=self),
        )
        billing.Budget(
            f"{name}-month",
            billing_account=args.budget.billing_account,
            display_name=title(f"vllm-fleet {args.place.name_prefix} ({args.place.project})", MAX_BUDGET_TITLE),
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
                for share in args.budget.thresholds
            ],
            opts=pulumi.ResourceOptions(parent=self, provider=provider),
        )
        self.register_outputs({})
