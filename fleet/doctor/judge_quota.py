"""Compares a stack's quota needs with the project's limits in its region."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from facts.finding import Finding
from facts.quotas import PER_ZONE, SERVICE, UNLIMITED, Quota
from fleet.doctor.gcloud import NoAnswerError, plain
from fleet.doctor.questions import Answer, quota_question
from fleet.doctor.rows import row
from fleet.doctor.shapes import mapping, objects, unreadable, whole, word

if TYPE_CHECKING:
    from settings.derived.quota_needs import QuotaNeed
    from settings.stack import Settings


def quota_row(need: QuotaNeed, settings: Settings, answers: Mapping[str, Answer]) -> Finding:
    """One quota, from Cloud Quotas, else from the older list of the region or the project."""
    quota = need.quota
    infos, why = answers[quota_question(need)], need.because
    found = in_cloud_quotas(infos, quota, settings)
    limit = found[1] if isinstance(found, tuple) else found
    older = in_older_list(answers["region" if quota.regional else "project"], quota)
    if older is not None:
        why += f"; {older[1]} in use now"
        if isinstance(limit, NoAnswerError):
            limit = older[0]
    name = f"{quota.title}, {settings.region}" if quota.regional else quota.title
    if isinstance(limit, NoAnswerError):
        return row(
            area="quota",
            name=name,
            state="unknown",
            needed=need.amount,
            granted="",
            why=f"{why}; {limit}",
            mend=_look(quota, settings, limit),
        )
    if limit == UNLIMITED or limit >= need.amount:
        granted = "unlimited" if limit == UNLIMITED else limit
        return row(area="quota", name=name, state="ready", needed=need.amount, granted=granted, why=why)
    info = found[0] if isinstance(found, tuple) else {}
    eligibility = info.get("quotaIncreaseEligibility")
    if isinstance(eligibility, dict) and isinstance(reason := eligibility.get("ineligibilityReason"), str):
        why += f"; an increase cannot be requested ({plain(reason)}): ask Google Cloud sales or support for it"
    return row(
        area="quota",
        name=name,
        state="missing",
        needed=need.amount,
        granted=limit,
        missing=need.amount - limit,
        why=why,
        mend=_request(quota, info.get("quotaId"), need, settings),
    )


def in_cloud_quotas(infos: Answer, quota: Quota, settings: Settings) -> tuple[Mapping[str, Any], int] | NoAnswerError:
    """The applicable limit, with Cloud Quotas' details."""
    if isinstance(infos, NoAnswerError):
        return infos
    try:
        for info in objects(infos):
            for row in objects(info.get("dimensionsInfos", [])):
                if not _applies(row, quota, settings):
                    continue
                # protobuf's JSON omits a limit of 0, as seen for families without a grant.
                limit = whole(mapping(row.get("details")).get("value", 0))
                if limit != UNLIMITED or not str(info.get("quotaId")).endswith(PER_ZONE):
                    return info, limit
    except NoAnswerError as error:
        return error
    what = (
        "Cloud Quotas does not list this quota" if not infos else "Cloud Quotas does not list this quota for the region"
    )
    return NoAnswerError(what, "not found")


def in_older_list(answer: Answer, quota: Quota) -> tuple[int, int] | None:
    """Limit and usage in the list of a region or project. gcloud omits the name of metrics that it does not know."""
    try:
        for entry in objects(mapping(answer).get("quotas")):
            if entry.get("metric") == quota.metric:
                return whole(entry.get("limit")), whole(entry.get("usage"))
    except NoAnswerError:
        return None
    return None


def _applies(row: Mapping[str, Any], quota: Quota, settings: Settings) -> bool:
    """Whether a row (most specific first) applies to the quota's family in the stack's region."""
    dimensions = mapping(row.get("dimensions") or {})
    families = {key: value for key, value in dimensions.items() if key not in ("region", "zone")}
    if any(quota.dimensions.get(key) != value for key, value in families.items()):
        return False
    if not quota.regional:
        return "region" not in dimensions and "zone" not in dimensions
    named = {word(dimensions[key]) for key in ("region", "zone") if key in dimensions}
    places = named or set(_places(row.get("applicableLocations")))
    return not places.isdisjoint({settings.region, *settings.zones})


def _places(value: Any) -> Sequence[str]:
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise unreadable()
    return value


def _request(quota: Quota, quota_id: Any, need: QuotaNeed, settings: Settings) -> str:
    places = {"region": settings.region} if quota.regional else {}
    dimensions = ",".join(f"{key}={value}" for key, value in {**places, **quota.dimensions}.items())
    return " ".join(
        [
            f"gcloud beta quotas preferences create --service={SERVICE} --project={settings.project}",
            f"--quota-id={quota_id if isinstance(quota_id, str) else quota.ids[0]}",
            *([f"--dimensions={dimensions}"] if dimensions else []),
            f"--preferred-value={need.amount}",
            f'--email=YOUR-ADDRESS --justification="vLLM on GKE Autopilot: {need.because}"',
        ]
    )


def _look(quota: Quota, settings: Settings, refused: NoAnswerError) -> str:
    if refused.reason == "API off":
        return f"gcloud services enable cloudquotas.googleapis.com --project={settings.project}"
    if refused.reason == "forbidden":
        return _grant(settings.project, "roles/cloudquotas.viewer")
    if refused.reason == "no such command":
        return "gcloud components install beta"
    page = f"https://console.cloud.google.com/iam-admin/quotas?project={settings.project}"
    return f"look for {quota.metric} of {settings.region if quota.regional else 'all regions'} at {page}"


def _grant(project: str, role: str) -> str:
    return f"gcloud projects add-iam-policy-binding {project} --member=user:YOUR-ADDRESS --role={role}"
