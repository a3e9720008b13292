"""A results bucket, a budget and a pod's permissions on an existing cluster."""

from __future__ import annotations

import pulumi

from infra.budget import Budget, BudgetArgs
from infra.naming import Place
from infra.results_bucket import ResultsBucket, ResultsBucketArgs
from infra.services import Services, ServicesArgs
from infra.workload_access import WorkloadAccess, WorkloadAccessArgs
from settings.sections.budget import Budget as Month
from settings.sections.results import Results

gcp, config = pulumi.Config("gcp"), pulumi.Config()
place = Place(project=gcp.require("project"), region=gcp.require("region"), name_prefix="trials")

services = Services(
    "apis",
    ServicesArgs(
        project=place.project,
        apis=[
            "billingbudgets.googleapis.com",
            "cloudresourcemanager.googleapis.com",
            "secretmanager.googleapis.com",
            "storage.googleapis.com",
        ],
    ),
)
after_services = pulumi.ResourceOptions(depends_on=[services])
results = ResultsBucket("results", ResultsBucketArgs(place=place, results=Results(retention_days=30)), after_services)
number = services.project_number()
access = WorkloadAccess(
    "access",
    WorkloadAccessArgs(
        project=place.project,
        project_number=number,
        workload_pool=f"{place.project}.svc.id.goog",
        namespace="trials",
        secret_readers=[("vllm-server", "hugging-face-token")],
        results_bucket=results.bucket.name,
    ),
    after_services,
)
budget = Budget(
    "budget",
    BudgetArgs(
        place=place,
        project_number=number,
        budget=Month(billing_account=config.require("billingAccount"), usd_per_month=2_000, thresholds=(0.5, 1.0)),
    ),
    after_services,
)

pulumi.export("resultsBucket", results.bucket.name)
