"""What a gateway's host name needs outside the cluster: the simulated Google Cloud's addresses and certificates, and a public DNS."""

from __future__ import annotations

from typing import Any, Final

from fleet.preview.record.values import reveal
from lab.cloud.gateway_prerequisites import CertificateState
from lab.providers.google.cloud import SimulatedCloud

ADDRESS: Final = "gcp:compute/address:Address"
CERTIFICATE: Final = "gcp:certificatemanager/certificate:Certificate"
AUTHORIZATION: Final = "gcp:certificatemanager/dnsAuthorization:DnsAuthorization"


class Domain:
    """Addresses and certificates by name. What the stack file names is believed to exist, as in a project that has it."""

    def __init__(
        self, cloud: SimulatedCloud, *, given_address: str | None = None, given_certificate: str | None = None
    ) -> None:
        self._cloud = cloud
        self._given_address, self._given_certificate = given_address, given_certificate
        self.public_dns: dict[str, str] = {}
        """CNAME records by name, as their owner creates them."""

    def address(self, name: str) -> str | None:
        """The address of that name; empty for one that only the stack file names, None if there is none."""
        found = next((one for one in self._all(ADDRESS) if one["name"] == name), None)
        if found is not None:
            return str(found["address"])
        return "" if name == self._given_address else None

    def certificate(self, name: str) -> CertificateState | None:
        """State of the certificate of that name; None if there is none.

        A managed one is ACTIVE while the records of its authorizations are in the public DNS. Google keeps an issued one until it
        expires; here it never does.
        """
        found = next((one for one in self._all(CERTIFICATE) if one["name"] == name), None)
        if found is None:
            return "ACTIVE" if name == self._given_certificate else None
        allowed = {one["id"]: one["dnsResourceRecords"][0] for one in self._all(AUTHORIZATION)}
        records = [allowed.get(one) for one in found["managed"]["dnsAuthorizations"]]
        seen = all(record is not None and self.public_dns.get(record["name"]) == record["data"] for record in records)
        return "ACTIVE" if seen else "PROVISIONING"

    def _all(self, type_: str) -> list[dict[str, Any]]:
        return [{"id": made.id, **reveal(dict(made.outputs))} for made in self._cloud.all() if made.type == type_]
