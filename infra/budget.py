"""A billing budget that warns before the month's money is gone."""

from __future__ import annotations

from dataclasses import dataclass

import pulumi
import pulumi_gcp as gcp
from pulumi_gcp import billing

from infra.naming import MAX_BUDGET_TITLE, title
from settings.arguments import within_limits
from settings.sections import budget as budget_section


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetArgs:
    """Arguments of `Budget`."""

    project: str
    """Id of the project whose cost is watched, and which pays for the requests."""
    project_number: pulumi.Input[str]
    """Number of the project; budgets do not know project ids."""
    billing_account: str
    """The billing account, e.g. "01ABCD-234567-89EFAB"; its currency must be USD."""
    usd_per_month: int
    """The month's amount in whole USD, above 0."""
    thresholds: tuple[float, ...] = (0.5, 0.9, 1.0)
    """Shares of the amount that send a warning, above 0 and up to 2; 1.0 is 100 %."""
    display_name: str = "vLLM fleet"
    """What the mail calls it; cut at 60 letters."""

    def __post_init__(self) -> None:
        within_limits(self, budget_section.Budget)


class Budget(pulumi.ComponentResource):
    """Mails the billing account's administrators at each threshold. It stops nothing: only `replicas: 0` does.

    It counts the whole project. A filter on the stack's label would miss what carries no label (NAT traffic, load
    balancers, disks that Kubernetes makes), and a budget that counts too little warns too late.
    """

    def __init__(self, name: str, args: BudgetArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("vllm-fleet:infra:Budget", name, None, opts)
        # The budgets API refuses a person's own credentials unless each request names a project that pays for it.
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
            billing_account=args.billing_account,
            display_name=title(args.display_name, MAX_BUDGET_TITLE),
            amount=billing.BudgetAmountArgs(
                specified_amount=billing.BudgetAmountSpecifiedAmountArgs(
                    currency_code="USD", units=str(args.usd_per_month)
                )
            ),
            budget_filter=billing.BudgetBudgetFilterArgs(
                projects=[pulumi.Output.format("projects/{0}", args.project_number)],
                calendar_period="MONTH",
            ),
            threshold_rules=[
                billing.BudgetThresholdRuleArgs(threshold_percent=share, spend_basis="CURRENT_SPEND")
                for share in args.thresholds
            ],
            opts=pulumi.ResourceOptions(parent=self, provider=provider),
        )
        self.register_outputs({})
