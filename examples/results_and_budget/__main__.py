"""A results bucket, a budget and a pod's access on a cluster that somebody else made."""

from __future__ import annotations

import pulumi

from infra.budget import Budget, BudgetArgs
from infra.results_bucket import ResultsBucket, ResultsBucketArgs
from infra.services import Services, ServicesArgs
from infra.workload_access import WorkloadAccess, WorkloadAccessArgs

gcp, config = pulumi.Config("gcp"), pulumi.Config()
project, region = gcp.require("project"), gcp.require("region")

services = Services(
    "apis",
    ServicesArgs(
        project=project,
        apis=[
            "billingbudgets.googleapis.com",
            "cloudresourcemanager.googleapis.com",
            "secretmanager.googleapis.com",
            "storage.googleapis.com",
        ],
    ),
)
after_services = pulumi.ResourceOptions(depends_on=[services])
results = ResultsBucket(
    "results",
    ResultsBucketArgs(project=project, region=region, name_prefix="trials", retention_days=30),
    after_services,
)
number = services.project_number()
access = WorkloadAccess(
    "access",
    WorkloadAccessArgs(
        project=project,
        project_number=number,
        workload_pool=f"{project}.svc.id.goog",
        namespace="trials",
        secret_readers=[("vllm-server", "hugging-face-token")],
        results_bucket=results.bucket.name,
    ),
    after_services,
)
budget = Budget(
    "budget",
    BudgetArgs(
        project=project,
        project_number=number,
        billing_account=config.require("billingAccount"),
        usd_per_month=2_000,
        thresholds=(0.5, 1.0),
        display_name="Trials",
    ),
    after_services,
)

pulumi.export("resultsBucket", results.bucket.name)
