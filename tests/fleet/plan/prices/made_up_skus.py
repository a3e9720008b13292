"""Made-up SKUs in the shape of the Cloud Billing Catalog API: names, units and regions as in its examples, prices invented."""

from __future__ import annotations

from typing import Any

COMPUTE = "services/6F81-5844-456A"
DAY = "2026-11-20"


def sku(
    description: str, usd: float, unit: str = "h", *, regions: tuple[str, ...] = ("europe-west4",)
) -> dict[str, Any]:
    """One SKU. The usage type is the one that the catalogue gives Spot B200: it tells nothing."""
    units, nanos = divmod(round(usd * 1e9), 10**9)
    return {
        "name": f"{COMPUTE}/skus/0000-0000-0000",
        "skuId": "0000-0000-0000",
        "description": description,
        "category": {"serviceDisplayName": "Compute Engine", "usageType": "OnDemand"},
        "serviceRegions": list(regions),
        "pricingInfo": [
            {
                "pricingExpression": {
                    "usageUnit": unit,
                    "tieredRates": [
                        {
                            "startUsageAmount": 0,
                            "unitPrice": {"currencyCode": "USD", "units": str(units), "nanos": nanos},
                        }
                    ],
                },
                "currencyConversionRate": 1,
                "effectiveTime": f"{DAY}T08:35:55.119680Z",
            }
        ],
    }


B200 = "A4 Nvidia B200 (1 gpu slice)"
SKUS = (
    sku(f"{B200} running in Netherlands", 16.0),
    sku(f"Spot Preemptible {B200} running in Netherlands", 5.0),
    sku(f"DWS Calendar Mode {B200} running in Netherlands", 11.0),
    sku(f"DWS Defined Duration {B200} running in Netherlands", 8.0),
    sku(f"Commitment v1: {B200} in Netherlands for 1 Year", 10.5),
    sku(f"Commitment v1: {B200} in Netherlands for 3 Years", 7.0),
    sku(f"Reserved {B200} in Netherlands", 0.001),
    sku("G2 Instance Core running in Netherlands", 0.025),
    sku("G2 Instance Ram running in Netherlands", 0.003, "GiBy.h"),
    sku("Nvidia L4 GPU running in Netherlands", 0.6),
    sku("Spot Preemptible G2 Instance Core running in Netherlands", 0.01),
    sku("Nvidia L4 GPU attached to Spot Preemptible VMs running in Netherlands", 0.3),
    sku("A3 Instance Core running in Netherlands", 0.03),
    sku("A3 Instance Ram running in Netherlands", 0.0025, "GiBy.h"),
    sku("Nvidia H100 80GB GPU running in Netherlands", 10.0),
    sku("SSD backed Local Storage in Netherlands", 0.073, "GiBy.mo"),
    sku("Hyperdisk ML Capacity in Netherlands", 0.0001, "GiBy.h"),
    sku("Hyperdisk ML Throughput in Netherlands", 0.13, "MiBps.mo"),
    sku("Networking Cloud Nat Data Processing", 0.05, "GiBy", regions=("global",)),
    sku("Licensing Fee for Something Else", 3.0),
)
