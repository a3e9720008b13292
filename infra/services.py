"""The Google Cloud APIs that a program calls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pulumi
from pulumi_gcp import organizations, projects

_SUFFIX = ".googleapis.com"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServicesArgs:
    """Arguments of `Services`."""

    apis: Sequence[str]
    """Full API names, e.g. "container.googleapis.com", without duplicates.
    `serviceusage.googleapis.com`, which enables the others, is on by default in new projects."""


class Services(pulumi.ComponentResource):
    """Enables APIs and never disables one."""

    enabled: list[projects.Service]

    def __init__(self, name: str, args: ServicesArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("vllm-fleet:infra:Services", name, None, opts)
        self.enabled = [
            projects.Service(
                f"{name}-{api.removesuffix(_SUFFIX)}",
                service=api,
                # Other stacks or teams of the project may use the API when this stack is destroyed.
                disable_on_destroy=False,
                opts=pulumi.ResourceOptions(
                    parent=self,
                    # The first activation of compute or container in a new project can take more than ten minutes.
                    custom_timeouts=pulumi.CustomTimeouts(create="20m"),
                ),
            )
            for api in args.apis
        ]
        self.register_outputs({})

    def project_number(self) -> pulumi.Output[str]:
        """The project number, read after the APIs are enabled; earlier, a first `pulumi up` would fail.

        Requires `cloudresourcemanager.googleapis.com` among the APIs.
        """
        project = organizations.get_project_output(
            opts=pulumi.InvokeOutputOptions(parent=self, depends_on=list(self.enabled))
        )
        return project.number
