"""What a gateway's host name needs in Google Cloud: a static address, and a certificate that Google issues and renews."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pulumi
from pulumi_gcp import certificatemanager, compute

from facts.names import fitted
from infra.naming import MAX_NAME, name_of
from settings.sections.gateway import Gateway as GatewaySection


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayNameArgs:
    """Arguments of `GatewayName`."""

    location: str
    """Region of the cluster, for the certificate."""
    gateway: GatewaySection
    """Host name, which is required, and class of the gateway; an address or certificate that it names is not created."""
    subnet: pulumi.Input[str] | None = None
    """Self link of the node subnet, which an internal address comes from; required for one, not used for an external one."""


class GatewayName(pulumi.ComponentResource):
    """Static address, DNS authorization and certificate of one host name, each unless it exists. It creates no DNS record:
    `dns_records` says which ones the owner of the domain must create.

    A new host name makes a new certificate beside the old one, so that the gateway is never without.
    """

    address_name: pulumi.Output[str]
    """Name of the static address."""
    certificate_name: pulumi.Output[str]
    """Name of the regional Certificate Manager certificate."""
    address: pulumi.Output[str] | None = None
    """The created address. None: an existing one, which only the gateway's status tells."""
    authorization: pulumi.Output[Mapping[str, str]] | None = None
    """DNS record that lets Google issue and renew the certificate. None: an existing certificate."""

    def __init__(self, name: str, args: GatewayNameArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("vllm-fleet:infra:GatewayName", name, None, opts)
        stack, gateway, child = pulumi.get_stack(), args.gateway, pulumi.ResourceOptions(parent=self)
        self._host = gateway.hostname or ""
        if gateway.address is None:
            address = compute.Address(
                f"{name}-address",
                name=name_of(stack, "vllm-gateway"),
                # Not with the host name: another description makes another address.
                description="The gateway of a vLLM fleet",
                address_type="EXTERNAL" if gateway.is_public else "INTERNAL",
                # Ports 80 and 443 are two forwarding rules, and an address for GCE_ENDPOINT serves only one.
                purpose=None if gateway.is_public else "SHARED_LOADBALANCER_VIP",
                subnetwork=None if gateway.is_public else args.subnet,
                # Source: kubernetes/ingress-gce, pull request 2353: regional external load balancers of GKE expect it (unverified for
                # Gateways). An address of the other tier can be named.
                network_tier="STANDARD" if gateway.is_public else None,
                opts=child,
            )
            self.address_name, self.address = address.name, address.address
        else:
            self.address_name = pulumi.Output.from_input(gateway.address)
        if gateway.tls.certificate is None:
            title = fitted(f"{stack}-{self._host}", limit=MAX_NAME)
            allowed = certificatemanager.DnsAuthorization(
                f"{name}-authorization-{self._host}",
                name=title,
                location=args.location,
                domain=self._host,
                # The default of regional authorizations, stated. Projects with certificates for the same name have a record each.
                type="PER_PROJECT_RECORD",
                opts=child,
            )
            certificate = certificatemanager.Certificate(
                f"{name}-certificate-{self._host}",
                name=title,
                location=args.location,
                managed=certificatemanager.CertificateManagedArgs(
                    domains=[self._host], dns_authorizations=[allowed.id]
                ),
                opts=child,
            )
            self.certificate_name = certificate.name
            self.authorization = allowed.dns_resource_records.apply(
                lambda records: {
                    "name": records[0].name or "",
                    "type": records[0].type or "",
                    "data": records[0].data or "",
                }
            )
        else:
            self.certificate_name = pulumi.Output.from_input(gateway.tls.certificate)
        self.register_outputs({"addressName": self.address_name, "certificateName": self.certificate_name})

    def dns_records(self, address: pulumi.Input[str]) -> pulumi.Output[Sequence[Mapping[str, str]]]:
        """The DNS records of the host name; `address` is the load balancer's, for an address that this component did not create."""
        own = self.address if self.address is not None else address
        parts = [pulumi.Output.from_input(own).apply(lambda ip: {"name": f"{self._host}.", "type": "A", "data": ip})]
        return pulumi.Output.all(*parts, *([] if self.authorization is None else [self.authorization]))
