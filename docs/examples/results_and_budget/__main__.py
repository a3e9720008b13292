"""A results bucket, a budget and a pod's permissions on an existing cluster."""

from __future__ import annotations

import pulumi
import pulumi_gcp as gcp

from infra.bucket import Bucket, BucketArgs
from infra.budget import Budget, BudgetArgs
from infra.services import Services, ServicesArgs
from infra.workload_access import WorkloadAccess, WorkloadAccessArgs
from settings.sections.budget import Budget as Month

config = pulumi.Config()
project, region = (pulumi.Config("gcp").require(key) for key in ("project", "region"))
google = gcp.Provider("google", project=project, region=region)

services = Services(
    "apis",
    ServicesArgs(
        apis=[
            "billingbudgets.googleapis.com",
            "cloudresourcemanager.googleapis.com",
            "secretmanager.googleapis.com",
            "storage.googleapis.com",
        ],
    ),
    pulumi.ResourceOptions(provider=google),
)
after_services = pulumi.ResourceOptions(provider=google, depends_on=[services])
results = Bucket("results", BucketArgs(project=project, location=region, retention_days=30), after_services)
number = services.project_number()
access = WorkloadAccess(
    "access",
    WorkloadAccessArgs(
        project=project,
        project_number=number,
        workload_pool=f"{project}.svc.id.goog",
        namespace="trials",
        secret_readers=[("vllm-server", "hugging-face-token")],
        results_bucket=results.name,
    ),
    after_services,
)
budget = Budget(
    "budget",
    BudgetArgs(
        project=project,
        project_number=number,
        budget=Month(billing_account=config.require("billingAccount"), usd_per_month=2_000),
    ),
    after_services,
)

pulumi.export("resultsBucket", results.name)
