"""Calendar capacity: a FutureReservation, which once approved can be neither changed nor cancelled."""

from __future__ import annotations

from dataclasses import dataclass

import pulumi
from pulumi_gcp import compute

from settings.capacity import MACHINE_TYPE, Calendar, CalendarRequest
from settings.problems import Problem
from settings.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class CalendarReservationArgs:
    """Arguments of `CalendarReservation`. Raises pulumi.RunError where they do not say which machines to order."""

    settings: Settings
    """The stack. Its checks have held `totalUsd` against nodes, days and price."""
    request: CalendarRequest
    """The window."""

    def __post_init__(self) -> None:
        zones = self.settings.zones
        if len(zones) > 1:
            raise pulumi.RunError(
                Problem(
                    id="calendar-zone",
                    path="vllm-fleet:zones",
                    value=list(zones),
                    allowed="one zone, while capacity.create asks for a window",
                    why="a reservation lies in one zone, pods of the others would stay Pending beside a paid window",
                    write=f"zones: [{zones[0]}]",
                ).text()
            )


class CalendarReservation(pulumi.ComponentResource):
    """A block of A4 machines for a window of days.

    Without `totalUsd` it stays a draft: free, and deleted with the stack. With it the request is submitted, and from
    then on Pulumi neither deletes it nor pretends to.
    """

    reservation: compute.FutureReservation

    def __init__(self, name: str, args: CalendarReservationArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("vllm-fleet:infra:CalendarReservation", name, None, opts)
        settings, request = args.settings, args.request
        submitted = request.total_usd is not None
        self.reservation = compute.FutureReservation(
            f"{name}-window",
            name=_reservation_name(settings),
            reservation_name=_reservation_name(settings),
            project=settings.project,
            zone=settings.zones[0],
            description=_description(settings, request),
            planning_status="SUBMITTED" if submitted else "DRAFT",
            reservation_mode="CALENDAR",
            deployment_type="DENSE",
            time_window=compute.FutureReservationTimeWindowArgs(
                start_time=request.start_time,
                duration=compute.FutureReservationTimeWindowDurationArgs(seconds=str(request.duration_days * 86_400)),
            ),
            specific_sku_properties=compute.FutureReservationSpecificSkuPropertiesArgs(
                total_count=str(request.nodes),
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


def _description(settings: Settings, request: CalendarRequest) -> str:
    """Says on the request itself what somebody typed by hand: whoever approves it, and any policy, reads the total there."""
    fleet = f"vLLM fleet, stack {settings.stack}"
    return fleet if request.total_usd is None else f"{fleet}, total ${request.total_usd:,.2f}"


def _reservation_name(settings: Settings) -> str:
    if not isinstance(settings.capacity, Calendar):
        raise pulumi.RunError("vllm-fleet:capacity.mode is not calendar, so there is no window to request")
    return settings.capacity.reservation
