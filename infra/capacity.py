"""Calendar capacity: a FutureReservation, which once approved can be neither changed nor cancelled."""

from __future__ import annotations

from dataclasses import dataclass

import pulumi
from pulumi_gcp import compute

from facts.machines import MACHINE_TYPE
from settings.arguments import refuse, within_limits
from settings.checks.platform import window_problems
from settings.sections.capacity import CalendarRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class CalendarReservationArgs:
    """Arguments of `CalendarReservation`. Raises ValueError where the window is none, or the typed total is not its price."""

    project: str
    """Id of the Google Cloud project."""
    zone: str
    """Zone of the machines, e.g. "europe-west4-b"; pods of other zones cannot use them."""
    reservation: str
    """Name of the reservation that an approved request becomes; pods select it by this name."""
    start_time: str
    """First moment of the window, RFC 3339 in UTC, e.g. "2027-01-04T06:00:00Z"."""
    duration_days: int
    """Length of the window, 1 to 90 days. Source: AI Hypercomputer, consumption options (calendar mode)."""
    nodes: int
    """A4 machines, 1 to 80. Source: the same table."""
    total_usd: float | None = None
    """The whole window's price in USD, typed by hand: nodes x days x 24 x `usd_per_node_hour`. None leaves a draft, which
    costs nothing; with it, the request is submitted and cannot be taken back once approved."""
    usd_per_node_hour: float | None = None
    """Google's price of one machine for an hour in USD, from your quote; required with `total_usd`, which it checks."""
    description: str = "vLLM fleet"
    """What whoever approves the request reads; the total is added to it."""

    def __post_init__(self) -> None:
        within_limits(self, CalendarRequest)
        problems = window_problems(
            start=("start_time", self.start_time),
            total=("total_usd", self.total_usd),
            price=("usd_per_node_hour", self.usd_per_node_hour),
            nodes=self.nodes,
            days=self.duration_days,
        )
        refuse(self, problems)


class CalendarReservation(pulumi.ComponentResource):
    """A block of A4 machines for a window of days.

    Without `totalUsd` it stays a draft: free, and deleted with the stack. With it the request is submitted, and from
    then on Pulumi neither deletes it nor pretends to.
    """

    reservation: compute.FutureReservation

    def __init__(self, name: str, args: CalendarReservationArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("vllm-fleet:infra:CalendarReservation", name, None, opts)
        submitted = args.total_usd is not None
        self.reservation = compute.FutureReservation(
            f"{name}-window",
            name=args.reservation,
            reservation_name=args.reservation,
            project=args.project,
            zone=args.zone,
            description=_description(args),
            planning_status="SUBMITTED" if submitted else "DRAFT",
            reservation_mode="CALENDAR",
            deployment_type="DENSE",
            time_window=compute.FutureReservationTimeWindowArgs(
                start_time=args.start_time,
                duration=compute.FutureReservationTimeWindowDurationArgs(seconds=str(args.duration_days * 86_400)),
            ),
            specific_sku_properties=compute.FutureReservationSpecificSkuPropertiesArgs(
                total_count=str(args.nodes),
                # The machine type implies its GPUs and local SSDs; naming them again is refused when they differ.
                instance_properties=compute.FutureReservationSpecificSkuPropertiesInstancePropertiesArgs(
                    machine_type=MACHINE_TYPE
                ),
            ),
            # Autopilot takes specific reservations only, and nobody else's VM may slip into one that is paid for.
            specific_reservation_required=True,
            share_settings=compute.FutureReservationShareSettingsArgs(share_type="LOCAL"),
            auto_delete_auto_created_reservations=True,
            # An approved request cannot be deleted: asked to, the API refuses and the whole destroy fails.
            deletion_policy="ABANDON" if submitted else "DELETE",
            opts=pulumi.ResourceOptions(
                parent=self,
                # A replacement would be a second order beside the first.
                protect=submitted,
                # Approval takes about two minutes, capacity checks up to an hour. Assumed: margin over both.
                custom_timeouts=pulumi.CustomTimeouts(create="90m", update="90m"),
            ),
        )
        self.register_outputs({"reservation": self.reservation.reservation_name})


def _description(args: CalendarReservationArgs) -> str:
    """Says on the request itself what somebody typed by hand: whoever approves it, and any policy, reads the total there."""
    return args.description if args.total_usd is None else f"{args.description}, total ${args.total_usd:,.2f}"
