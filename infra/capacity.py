"""Calendar capacity: a FutureReservation. Once approved, it can be neither changed nor cancelled."""

from __future__ import annotations

from dataclasses import dataclass

import pulumi
from pulumi_gcp import compute

from infra.naming import Place
from settings.arguments import checked, refuse, refuse_field
from settings.checks.platform import window_problems
from settings.sections.capacity import Calendar, CalendarRequest


@checked
@dataclass(frozen=True, slots=True, kw_only=True)
class CalendarReservationArgs:
    """Arguments of `CalendarReservation`. Raises ValueError for a missing window or a total that does not match its price."""

    place: Place
    """Project, and the fleet's name for the description."""
    zone: str
    """Zone of the machines, e.g. "europe-west4-b"; pods in other zones cannot use them."""
    calendar: Calendar
    """Name of the resulting reservation; start, days and machines of the window to `create`. With
    `total_usd`, entered manually and checked against `usd_per_node_hour`, the request is submitted and cannot be withdrawn once
    approved. Without it, the request stays a draft and costs nothing."""
    machine_type: str
    """Machine type, e.g. "a4-highgpu-8g"."""

    def __post_init__(self) -> None:
        refuse(self, window_problems("calendar", self.calendar, self.window))

    @property
    def window(self) -> CalendarRequest:
        """The requested window. Raises ValueError if there is none."""
        if self.calendar.create is None:
            refuse_field(
                self,
                "calendar.create",
                found=None,
                allowed="the window to request: start, days and nodes",
                why="an existing reservation needs no request",
                write='calendar=Calendar(..., create=CalendarRequest(start_time="2027-01-04T06:00:00Z", duration_days=7, nodes=1))',
            )
        return self.calendar.create


class CalendarReservation(pulumi.ComponentResource):
    """A block of machines for a number of days.

    Without `totalUsd` it stays a draft: free, and deleted with the stack. With it the request is submitted, and Pulumi
    no longer deletes it.
    """

    reservation: compute.FutureReservation

    def __init__(self, name: str, args: CalendarReservationArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("vllm-fleet:infra:CalendarReservation", name, None, opts)
        window = args.window
        submitted = window.total_usd is not None
        self.reservation = compute.FutureReservation(
            f"{name}-window",
            name=args.calendar.reservation,
            reservation_name=args.calendar.reservation,
            project=args.place.project,
            zone=args.zone,
            description=_description(args),
            planning_status="SUBMITTED" if submitted else "DRAFT",
            reservation_mode="CALENDAR",
            deployment_type="DENSE",
            time_window=compute.FutureReservationTimeWindowArgs(
                start_time=window.start_time,
                duration=compute.FutureReservationTimeWindowDurationArgs(seconds=str(window.duration_days * 86_400)),
            ),
            specific_sku_properties=compute.FutureReservationSpecificSkuPropertiesArgs(
                total_count=str(window.nodes),
                # The machine type implies GPUs and local SSDs; the API refuses values that differ.
                instance_properties=compute.FutureReservationSpecificSkuPropertiesInstancePropertiesArgs(
                    machine_type=args.machine_type
                ),
            ),
            # Autopilot consumes specific reservations only, and other VMs must not use one that is paid for.
            specific_reservation_required=True,
            share_settings=compute.FutureReservationShareSettingsArgs(share_type="LOCAL"),
            auto_delete_auto_created_reservations=True,
            # The API refuses to delete an approved request, which would fail the whole destroy.
            deletion_policy="ABANDON" if submitted else "DELETE",
            opts=pulumi.ResourceOptions(
                parent=self,
                # A replacement would be a second order.
                protect=submitted,
                # Approval takes about two minutes, capacity checks up to an hour. Assumed: a margin above both.
                custom_timeouts=pulumi.CustomTimeouts(create="90m", update="90m"),
            ),
        )
        self.register_outputs({"reservation": self.reservation.reservation_name})


def _description(args: CalendarReservationArgs) -> str:
    """Description with the total that the user entered, for the approver and for policies."""
    fleet, total_usd = f"vLLM fleet, stack {args.place.name_prefix}", args.window.total_usd
    return fleet if total_usd is None else f"{fleet}, total ${total_usd:,.2f}"
