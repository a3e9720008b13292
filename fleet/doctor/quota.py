"""Compares a stack's quota needs with the project's limits in its region, by Cloud Quotas."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from facts.finding import Finding
from facts.quotas import PER_ZONE, SERVICE, UNLIMITED, Quota
from fleet.doctor.rows import Question, row
from settings.derived.quota_needs import quota_needs

if TYPE_CHECKING:
    from fleet.doctor.google import Google
    from settings.derived.quota_needs import QuotaNeed
    from settings.stack import Settings

QUOTAS: Final = "https://cloudquotas.googleapis.com/v1"
"""Source: Cloud Quotas API v1, projects.locations.services.quotaInfos."""


def questions(settings: Settings) -> Iterator[Question]:
    """One for each quota that the stack uses."""
    page = f"https://console.cloud.google.com/iam-admin/quotas?project={settings.project}"
    for need in quota_needs(settings):
        yield Question(
            area="quota",
            name=_name(need.quota, settings),
            ask=partial(_quota, need, settings),
            look=f"gcloud services enable cloudquotas.googleapis.com --project={settings.project}, or look for "
            f"{need.quota.metric} at {page}",
        )


def _name(quota: Quota, settings: Settings) -> str:
    return f"{quota.title}, {settings.region}" if quota.regional else quota.title


def _quota(need: QuotaNeed, settings: Settings, google: Google) -> Iterator[Finding]:
    quota = need.quota
    of_project = f"{QUOTAS}/projects/{settings.project}/locations/global/services/{SERVICE}/quotaInfos"
    infos = [info for id_ in quota.ids if (info := google.find(f"{of_project}/{id_}")) is not None]
    found = _applicable(infos, quota, settings)
    if found is None:
        raise LookupError(quota.metric)
    info, limit = found
    refused = info.get("quotaIncreaseEligibility", {}).get("ineligibilityReason")
    has_enough = limit in (UNLIMITED,) or limit >= need.amount
    yield row(
        area="quota",
        name=_name(quota, settings),
        state="ready" if has_enough else "missing",
        needed=need.amount,
        granted="unlimited" if limit == UNLIMITED else limit,
        why=need.because
        if has_enough or not refused
        else f"{need.because}; an increase cannot be requested ({refused}): ask Google Cloud sales or support for it",
        mend=_request(info["quotaId"], need, settings),
    )


def _applicable(infos: list[Any], quota: Quota, settings: Settings) -> tuple[Mapping[str, Any], int] | None:
    """The limit that applies, with its details: the first, as Google lists the most specific first."""
    for info in infos:
        for one in info["dimensionsInfos"]:
            # protobuf's JSON omits a limit of 0, as seen for families without a grant.
            limit = int(one["details"].get("value", 0))
            if _applies(one, quota, settings) and not (limit == UNLIMITED and info["quotaId"].endswith(PER_ZONE)):
                return info, limit
    return None


def _applies(one: Mapping[str, Any], quota: Quota, settings: Settings) -> bool:
    """Whether a limit is of the quota's family in the stack's region."""
    dimensions = one.get("dimensions", {})
    families = {key: value for key, value in dimensions.items() if key not in ("region", "zone")}
    if any(quota.dimensions.get(key) != value for key, value in families.items()):
        return False
    if not quota.regional:
        return "region" not in dimensions and "zone" not in dimensions
    named = {dimensions[key] for key in ("region", "zone") if key in dimensions}
    return not (named or set(one["applicableLocations"])).isdisjoint({settings.region, *settings.zones})


def _request(quota_id: str, need: QuotaNeed, settings: Settings) -> str:
    places = {"region": settings.region} if need.quota.regional else {}
    dimensions = ",".join(f"{key}={value}" for key, value in {**places, **need.quota.dimensions}.items())
    return " ".join(
        [
            f"gcloud beta quotas preferences create --service={SERVICE} --project={settings.project}",
            f"--quota-id={quota_id}",
            *([f"--dimensions={dimensions}"] if dimensions else []),
            f"--preferred-value={need.amount}",
            f'--email=YOUR-ADDRESS --justification="vLLM on GKE Autopilot: {need.because}"',
        ]
    )
