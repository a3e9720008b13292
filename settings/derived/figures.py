"""A stack's bill and its matching published figure, from its settings."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil
from typing import TYPE_CHECKING, Any

from facts import cost
from facts import figures as published
from facts.disks import throughput_floor_mibps
from facts.names import BATCH_CLIENT_VCPUS, KEDA_VCPUS, SPENDING_GUARD_VCPUS
from facts.sizing import VLLM_IMAGE_GIB
from settings.derived.batch_pods import batch_pods
from settings.derived.benchmark_load import load_of
from settings.derived.canary import has_own_weights
from settings.derived.router import router_vcpus
from settings.derived.scaling import scaling_policy
from settings.sections.capacity import ComputeClassMode, Reservation
from settings.sections.engine import effective_environment, effective_flags

if TYPE_CHECKING:
    from settings.stack import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """Bill and matching figure of one stack."""

    bill: cost.Bill
    match: published.Match
    replicas: int

    @property
    def proven(self) -> bool:
        """Whether the figure applies to this stack: an exact or equivalent configuration."""
        return self.match.figure is not None and self.match.kind != "unproven"

    @property
    def total_tokens_per_s(self) -> int | None:
        """Published input and output tokens a second; None without a matching figure."""
        return self.match.figure.total_tokens_per_s if self.proven and self.match.figure else None

    @property
    def output_tokens_per_s(self) -> int | None:
        """Published output tokens a second, derived from the total and the workload's share of output."""
        return self.match.figure.output_tokens_per_s if self.proven and self.match.figure else None

    @property
    def usd_per_million_tokens(self) -> float | None:
        """Dollars per million input and output tokens at the published rate; a lower bound if prices are unknown."""
        return self.bill.usd_per_million_tokens(self.total_tokens_per_s) if self.total_tokens_per_s else None

    @property
    def usd_per_million_output_tokens(self) -> float | None:
        """Dollars per million output tokens at the published rate; a lower bound if prices are unknown."""
        return self.bill.usd_per_million_tokens(self.output_tokens_per_s) if self.output_tokens_per_s else None

    def exports(self) -> dict[str, Any]:
        """Stack outputs by name. Figures are absent without a matching one."""
        figure = self.match.figure if self.proven else None
        outputs: dict[str, Any] = {
            "usdPerHour": _rounded(self.bill.usd_per_hour, 2),
            "usdPerHourIsAtLeast": bool(self.bill.unknown),
            "usdPerHourAtFewest": _rounded(self.bill.scaled.smallest.usd_per_hour, 2) if self.bill.scaled else None,
            "usdPerMonthBySchedule": _rounded(self.bill.usd_per_month_by_schedule, 0),
            "pricesOf": self.bill.format_price_dates(),
            "publishedFigure": f"{figure.title} ({figure.label})" if figure else self.match.reason,
            "publishedTotalTokensPerSecond": self.total_tokens_per_s,
            "publishedOutputTokensPerSecond": self.output_tokens_per_s,
            "usdPerMillionTokens": _rounded(self.usd_per_million_tokens),
            "usdPerMillionOutputTokens": _rounded(self.usd_per_million_output_tokens),
        }
        return {name: value for name, value in outputs.items() if value is not None}


def figures(settings: Settings) -> Figures:
    """Bill and published figure of a stack."""
    return Figures(
        bill=stack_bill(settings),
        match=published.match(serving_shape(settings)),
        replicas=settings.replicas,
    )


def stack_bill(settings: Settings) -> cost.Bill:
    """The bill at full size, with the smaller sizes of an autoscaled fleet."""
    shape = fleet_shape(settings)
    bill, policy = cost.bill(shape), scaling_policy(settings)
    if policy is None or policy.paused:
        return bill
    smallest = cost.bill(
        replace(
            shape,
            nodes=settings.nodes_for(policy.min),
            batch_vcpus=0 if settings.scales_by_batch else shape.batch_vcpus,
        )
    )
    if settings.scales_by_batch:
        return replace(bill, scaled=cost.Scaled(smallest=smallest, floor_share=None))
    share = (policy.mean_floor() - policy.min) / max(1, policy.max - policy.min)
    return replace(bill, scaled=cost.Scaled(smallest=smallest, floor_share=share))


def serving_shape(settings: Settings) -> published.ServingShape:
    """The stack's configuration for matching with published figures."""
    engine = settings.serving.engine
    benchmark = settings.benchmark if settings.benchmark.enabled else None
    return published.ServingShape(
        model=settings.serving.model.id,
        engine_version=settings.serving.image.tag.removeprefix("v"),
        machine_type=settings.machine.type,
        replicas=settings.replicas,
        gpus_per_replica=settings.gpus_per_replica,
        flags=effective_flags(engine),
        env=effective_environment(engine),
        routing=settings.routing,
        # The benchmark's workload, if enabled, else the profile's.
        workload=benchmark.workload if benchmark else settings.serving.workload,
        dataset=benchmark.dataset.sha256 if benchmark and benchmark.dataset else None,
    )


def measured_shape(settings: Settings) -> published.ServingShape:
    """The configuration of the benchmark's figures: the stack's, with the benchmark's workload."""
    benchmark, dataset = settings.benchmark, settings.benchmark.dataset
    return replace(serving_shape(settings), workload=benchmark.workload, dataset=dataset.sha256 if dataset else None)


def fleet_shape(settings: Settings) -> cost.FleetShape:
    """The stack's billed resources."""
    own, gateway = settings.owns_platform, settings.gateway
    benchmark = settings.benchmark if settings.benchmark.enabled else None
    weights = settings.weights
    capacity = settings.capacity
    committed = capacity.nodes or settings.nodes if isinstance(capacity, Reservation) else None
    served = [
        serving
        for serving in (settings.serving, settings.canary if has_own_weights(settings) else None)
        if serving is not None
    ]
    weights_gib = sum(serving.model.size_gb for serving in served) * 1e9 / 2**30
    return cost.FleetShape(
        nodes=settings.nodes,
        machine=settings.machine,
        local_ssd=settings.local_ssd,
        boot_disk_gib=settings.boot_disk_gib,
        region=settings.region,
        capacity=settings.placement.price_key,
        priorities=_steps(capacity) if isinstance(capacity, ComputeClassMode) else (),
        committed_nodes=committed,
        reserved_nodes=(capacity.reservation.nodes or 0)
        if isinstance(capacity, ComputeClassMode) and capacity.reservation is not None
        else 0,
        usd_per_node_hour=capacity.usd_per_node_hour,
        cluster=own,
        weights=cost.WeightsShape(
            size_gib=weights.size_gib,
            throughput_mibps=weights.throughput_mibps,
            copies=len(settings.zones),
            releases=len(served),
            # An existing image is not billed to this stack, and nothing is written.
            writer_throughput_mibps=ceil(throughput_floor_mibps(weights.size_gib)) if weights.is_written else 0,
            image_gib=ceil(weights_gib) if weights.is_written else 0,
        )
        if weights.has_volume
        else None,
        download_gib=ceil(weights_gib)
        * (int(weights.is_written) if weights.has_volume else settings.replicas + settings.canary_replicas),
        benchmark_machine_type=None if benchmark is None else load_of(settings).machine_type,
        epp_vcpus=gateway.epp.cpu * settings.pickers,
        keda_vcpus=KEDA_VCPUS if settings.makes_keda else 0,
        spending_guard_vcpus=SPENDING_GUARD_VCPUS if settings.spending is not None else 0,
        batch_vcpus=BATCH_CLIENT_VCPUS * batch_pods(settings).per_server * settings.replicas
        if settings.batch.enabled
        else 0,
        # With a host name, ports 80 and 443 are a rule each.
        router_vcpus=router_vcpus(settings),
        load_balancers=gateway.enabled * (1 + (gateway.hostname is not None)) + settings.server.internal_load_balancer,
        gateway_addresses=int(gateway.makes_address and gateway.is_public),
        certificates=int(gateway.makes_certificate),
        nat_gateways=int(own),
        registry_gib=VLLM_IMAGE_GIB if own else 0,
        bucket_gib=0,
        stated_prices=settings.prices,
    )


def _steps(capacity: ComputeClassMode) -> tuple[str, ...]:
    there = {
        "reservation": capacity.reservation is not None,
        "spot": capacity.spot,
        "flex-start": capacity.flex_start_seconds is not None,
    }
    return tuple(step for step in cost.PRIORITIES if there[step])


def _rounded(value: float | None, digits: int = 4) -> float | None:
    return None if value is None else round(value, digits)
