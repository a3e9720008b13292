"""What Google Cloud's answers mean for a stack."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from facts.finding import Finding
from fleet.doctor.gcloud import NoAnswerError
from fleet.doctor.judge import judge
from fleet.doctor.live import neighbours
from fleet.doctor.questions import questions
from settings.derived.google_cloud_needs import required_permissions
from settings.stack import Settings
from tests.fleet.doctor.replies import advice, answers, limit, quota, reservation, zoned
from tests.support.rows import each_row
from tests.support.settings import make_settings

SPOT = make_settings()
RESERVED = make_settings(capacity={"mode": "reservation", "name": "b200-production"})
OFF = NoAnswerError("Cloud Quotas API has not been used", "API off")


def answered(settings: Settings, **changed: Any) -> dict[str, Any]:
    """What `ask_all` gives for a project that has everything, except for what is changed; underscores are spaces."""
    said = answers()
    infos = [one for words, one in said.items() if words.startswith("beta quotas")]
    by_metric = {one["quotaId"].partition("-per-project")[0].replace("-", "_"): one for one in infos}
    found = {f"quota {metric}": [one] for metric, one in by_metric.items()}
    for family in ("C4", "C4A"):
        found[f"quota {family}_CPUS"] = [by_metric["CPUS_PER_VM_FAMILY"]]
    found |= {
        "region": said["compute regions describe europe-west4"],
        "project": said["compute project-info describe"],
        "machine types": said["compute machine-types list"],
        "accelerator types": said["compute accelerator-types list"],
        "disk types": said["compute disk-types list"],
        "Spot": [advice()],
        "GKE versions": said["container get-server-config"],
        "APIs": said["services list"],
        "billing": said["billing projects describe fleet-tests"],
        "permissions": {"permissions": list(required_permissions(settings))},
        "reservation": [reservation()],
        "images": {"repository": said["artifacts repositories describe test-docker-hub"], "pull": 200},
    }
    found |= {
        name.replace("_", " ", 1) if name.startswith("quota") else name.replace("_", " "): it
        for name, it in changed.items()
    }
    return {name: found[name] for name in questions(settings)}


def rows(settings: Settings = SPOT, **changed: Any) -> dict[str, Finding]:
    return {row.subject: row for row in judge(settings, answered(settings, **changed))}


def test_a_project_with_everything_is_ready() -> None:
    found = rows()
    assert {row.severity for row in found.values()} == {"passed"}
    assert [row.write for row in found.values() if row.write] == []
    gpus = found["Spot and flex-start B200 GPUs, europe-west4"]
    assert (gpus.allowed, gpus.found) == ("at least 96", 96)


def test_quota_that_is_too_low_is_requested_by_its_name_region_and_sum() -> None:
    low = quota("PREEMPTIBLE-NVIDIA-B200-GPUS-per-project-region", limit(64))
    row = rows(quota_PREEMPTIBLE_NVIDIA_B200_GPUS=[low])["Spot and flex-start B200 GPUs, europe-west4"]
    assert (row.severity, row.allowed, row.found, row.why.partition(";")[0]) == (
        "error",
        "at least 96",
        64,
        "32 missing",
    )
    assert row.write.startswith(
        "gcloud beta quotas preferences create --service=compute.googleapis.com --project=fleet-tests "
    )
    for part in (
        "--quota-id=PREEMPTIBLE-NVIDIA-B200-GPUS-per-project-region",
        "--dimensions=region=europe-west4",
        "--preferred-value=96",
    ):
        assert part in row.write.split()


def test_the_limit_of_another_family_or_region_is_not_this_ones() -> None:
    settings = make_settings(benchmark={"enabled": True})
    found = rows(settings)
    assert (found["C4A vCPU, europe-west4"].found, found["C4A vCPU, europe-west4"].severity) == (64, "passed")
    c4 = found["C4 vCPU, europe-west4"]
    assert (c4.allowed, c4.found, c4.severity) == ("at least 32", 24, "error")
    assert "--dimensions=region=europe-west4,vm_family=C4" in c4.write.split()


GPUS = "quota_PREEMPTIBLE_NVIDIA_B200_GPUS"
GPU_ROW = "Spot and flex-start B200 GPUs, europe-west4"


@each_row(
    ("row", "granted", "state"),
    [
        (limit(-1), "unlimited", "passed"),
        (limit(None), 0, "error"),  # a zero is left out
        (limit(8, "us-central1"), "", "unknown"),
        (limit(200, gpu_family="NVIDIA_H100"), "", "unknown"),
        (limit(200, "europe-west4-b", zone="europe-west4-b"), 200, "passed"),
        ({"applicableLocations": ["europe-west4"]}, "", "unknown"),
        ({"applicableLocations": "europe-west4", "details": {"value": "200"}}, "", "unknown"),
        ({"applicableLocations": ["europe-west4"], "details": {"value": "many"}}, "", "unknown"),
        ({"applicableLocations": ["europe-west4"], "details": 200}, "", "unknown"),
    ],
)
def test_a_row_that_is_not_understood_is_unknown_and_never_fine(
    row: dict[str, Any], granted: object, state: str
) -> None:
    found = rows(**{GPUS: [quota("any", row)]})[GPU_ROW]
    assert (found.found, found.severity) == (granted, state)
    assert bool(found.write) == (state != "passed")


@pytest.mark.parametrize("infos", [[], [{}], [{"dimensionsInfos": {}}], {"quotaInfos": []}, "64", None, [["64"]]])
def test_an_answer_of_another_form_is_unknown(infos: Any) -> None:
    found = rows(**{GPUS: infos})[GPU_ROW]
    assert (found.severity, found.found) == ("unknown", "")
    assert "PREEMPTIBLE_NVIDIA_B200_GPUS" in found.write


def test_the_more_specific_row_comes_first_and_counts() -> None:
    specific = limit(8, "europe-west4", region="europe-west4")
    assert rows(**{GPUS: [quota("any", specific, limit(400))]})[GPU_ROW].found == 8


def test_no_limit_in_a_zones_copy_is_no_grant() -> None:
    in_zone = limit(-1, "europe-west4-b", zone="europe-west4-b")
    name = "Hyperdisk ML throughput, europe-west4"
    copy = quota("HDML-TOTAL-THROUGHPUT-per-project-zone", in_zone)
    assert rows(quota_HDML_TOTAL_THROUGHPUT=[copy])[name].severity == "unknown"
    copy = quota("HDML-TOTAL-THROUGHPUT-per-project-zone", limit(400, "europe-west4-b", zone="europe-west4-b"))
    assert rows(quota_HDML_TOTAL_THROUGHPUT=[copy])[name].found == 400


@pytest.mark.parametrize(
    ("error", "mend"),
    [
        (OFF, "gcloud services enable cloudquotas.googleapis.com --project=fleet-tests"),
        (NoAnswerError("x", "no such command"), "gcloud components install beta"),
    ],
)
def test_why_a_quota_is_unknown_decides_what_mends_it(error: NoAnswerError, mend: str) -> None:
    assert rows(**{GPUS: error})[GPU_ROW].write == mend


def test_the_older_list_answers_where_cloud_quotas_does_not() -> None:
    found = rows(quota_HDB_TOTAL_GB=OFF)["Hyperdisk Balanced capacity, europe-west4"]
    assert (found.severity, found.found) == ("passed", 8_192)
    assert "500 in use" in found.why
    unnamed = {"quotas": [{"limit": 8_192.0, "usage": 0.0}]}
    assert (
        rows(quota_HDB_TOTAL_GB=OFF, region=unnamed)["Hyperdisk Balanced capacity, europe-west4"].severity == "unknown"
    )


def test_an_increase_that_google_does_not_take_is_told() -> None:
    closed = quota(
        "any",
        limit(0),
        quotaIncreaseEligibility={"isEligible": False, "ineligibilityReason": "NO_VALID_BILLING_ACCOUNT"},
    )
    assert "NO_VALID_BILLING_ACCOUNT" in rows(**{GPUS: [closed]})[GPU_ROW].why


@each_row(
    ("question", "kind", "name"),
    [("accelerator_types", "acceleratorTypes", "nvidia-b200"), ("disk_types", "diskTypes", "hyperdisk-ml")],
)
def test_a_zone_without_it_is_missing_and_those_with_it_are_named(question: str, kind: str, name: str) -> None:
    row = rows(**{question: [zoned(kind, name, "us-central1-b")]})[name]
    assert (row.severity, row.why.split()[0]) == ("error", "europe-west4-b")
    assert "us-central1-b" in row.why


@each_row(
    ("cluster", "found", "state"),
    [
        ({}, "1.36.1-gke.1400000", "passed"),  # the channel's default
        ({"minVersion": "1.36"}, "1.36.4-gke.1247000", "passed"),
        ({"minVersion": "1.36.4-gke.1247000"}, "1.36.4-gke.1247000", "passed"),
        ({"minVersion": "1.36.5-gke.1"}, "1.36.4-gke.1247000", "error"),
        ({"minVersion": "1.35"}, "none", "error"),  # withdrawn
        ({"minVersion": "1.36", "releaseChannel": "REGULAR"}, "none", "error"),  # not there yet
        ({"releaseChannel": "STABLE"}, "", "unknown"),
    ],
)
def test_the_version_is_one_that_the_channel_still_offers(cluster: dict[str, str], found: str, state: str) -> None:
    row = rows(make_settings(cluster=cluster))[f"GKE of channel {cluster.get('releaseChannel', 'RAPID')}"]
    assert (row.found, row.severity, bool(row.write)) == (found, state, state != "passed")


def test_a_version_that_is_too_old_for_the_machine_is_missing() -> None:
    channel = {"channel": "RAPID", "defaultVersion": "1.32.1-gke.1", "validVersions": ["1.32.1-gke.1"]}
    assert rows(GKE_versions={"channels": [channel]})["GKE of channel RAPID"].severity == "error"


@pytest.mark.parametrize("said", [{}, [1], [{"name": "a4-highgpu-8g"}], [{"zone": "x"}], "nothing"])
def test_machine_types_of_another_form_are_unknown(said: Any) -> None:
    assert rows(machine_types=said)["machine types"].severity == "unknown"


def test_a_machine_without_gpus_may_be_in_any_zone_of_the_region() -> None:
    in_zone = {"a4-highgpu-8g": "europe-west4-b", "c4a-standard-8": "europe-west4-a"}
    found = rows(machine_types=[zoned("machineTypes", name, zone) for name, zone in in_zone.items()])
    assert (found["c4a-standard-8"].severity, found["c4a-standard-8"].found) == ("passed", "europe-west4-a")
    abroad = rows(machine_types=[zoned("machineTypes", "c4a-standard-8", "us-central1-a")])
    assert (abroad["c4a-standard-8"].severity, abroad["c4a-standard-8"].found) == ("error", "none")
    assert "zones[0]" not in abroad["c4a-standard-8"].write


def test_an_empty_list_of_machine_types_is_a_zone_without_them() -> None:
    assert rows(machine_types=[])["a4-highgpu-8g"].severity == "error"


@each_row(
    ("changed", "state"),
    [
        ({}, "passed"),
        ({"status": "CREATING"}, "error"),
        ({"specificReservationRequired": False}, "error"),
        ({"specificReservation": {"count": "8", "instanceProperties": {"machineType": "a4-highgpu-8g"}}}, "error"),
        ({"specificReservation": {"count": "12", "instanceProperties": {"machineType": "a3-ultragpu-8g"}}}, "error"),
        (
            {
                "specificReservation": {
                    "count": "12",
                    "inUseCount": "1",
                    "instanceProperties": {"machineType": "a4-highgpu-8g"},
                }
            },
            "unknown",
        ),
        ({"specificReservation": None, "aggregateReservation": {}}, "unknown"),
        ({"specificReservation": {"count": "twelve"}}, "unknown"),
    ],
)
def test_a_reservation_must_be_ready_specific_of_this_machine_and_free(changed: Mapping[str, Any], state: str) -> None:
    row = rows(RESERVED, reservation=[reservation(**changed)])["b200-production"]
    assert (row.severity, row.allowed) == (state, "at least 12")


def test_a_reservation_that_is_not_there_is_missing() -> None:
    assert rows(RESERVED, reservation=[])["b200-production"].severity == "error"
    window = make_settings(capacity={"mode": "calendar", "reservation": "january"})
    assert rows(window, reservation=[])["january"].severity == "error"


def test_reserved_machines_ask_for_no_gpu_quota() -> None:
    assert GPU_ROW not in rows(RESERVED)
    ladder = make_settings(capacity={"mode": "ladder", "reservation": {"name": "b200-production"}})
    assert {"b200-production", GPU_ROW} <= rows(ladder).keys()


def test_apis_that_are_off_are_no_obstacle() -> None:
    row = rows(APIs=[])["APIs"]
    assert (row.severity, row.found) == ("note", 0)
    assert "compute.googleapis.com" in row.write.split()


@pytest.mark.parametrize(
    ("said", "state"),
    [
        ({"projectId": "fleet-tests"}, "error"),  # false is left out
        ({"projectId": "fleet-tests", "billingEnabled": False}, "error"),
        ({"billingEnabled": "yes", "projectId": "fleet-tests"}, "error"),
        ({}, "unknown"),
        ([], "unknown"),
    ],
)
def test_billing_counts_as_on_only_where_google_says_so(said: Any, state: str) -> None:
    assert rows(billing=said)["fleet-tests"].severity == state


def test_missing_permissions_are_told_by_the_role_that_has_them() -> None:
    some = [one for one in required_permissions(SPOT) if not one.startswith("container.")]
    found = [row for row in rows(permissions={"permissions": some}).values() if row.id == "permission"]
    assert [(row.subject, row.severity) for row in found] == [("roles/container.admin", "error")]
    assert "--role=roles/container.admin" in found[0].write
    assert len([row for row in rows(permissions={}).values() if row.id == "permission"]) == 8
    assert rows(permissions={"permissions": "all"})["permissions on the project"].severity == "unknown"


@pytest.mark.parametrize(
    ("code", "state"),
    [(200, "passed"), (403, "error"), (404, "error"), (429, "error"), (503, "unknown"), (302, "unknown")],
)
def test_docker_hub_is_asked_through_the_repository(code: int, state: str) -> None:
    repository = answers()["artifacts repositories describe test-docker-hub"]
    row = rows(images={"repository": repository, "pull": code})["test-docker-hub"]
    assert row.severity == state
    assert ("registry" in row.write) == (code == 429)


def test_a_repository_that_up_will_make_is_no_obstacle() -> None:
    assert rows(images={})["test-docker-hub"].severity == "note"


def test_a_guest_asks_for_nothing_that_its_host_has() -> None:
    guest = make_settings(platform={"stack": "organization/vllm-fleet/spot"}, namespace="other")
    found = rows(guest)
    assert "test-docker-hub" not in found
    assert "compute.networks.create" not in required_permissions(guest)


def test_one_question_without_an_answer_takes_no_other_with_it() -> None:
    everything = answered(SPOT)
    in_older_lists = {"region", "project", "quota GPUS_ALL_REGIONS", "quota HDB_TOTAL_GB"}
    for name in everything:
        found = judge(SPOT, {**everything, name: NoAnswerError("no answer within 30 s", "timeout")})
        unknown = [row for row in found if row.severity == "unknown"]
        assert len(unknown) == (0 if name in in_older_lists else 1), name
        assert all(row.write for row in unknown)


def test_other_stacks_of_the_project_are_mentioned() -> None:
    dev = make_settings("dev", server={"replicas": 1})
    elsewhere = make_settings("away", region="us-central1", zones=["us-central1-b"])
    foreign = make_settings("foreign", project="another-project")
    first, second = neighbours(SPOT, [SPOT, dev, elsewhere, foreign])
    assert first.startswith("stack dev takes 8 Spot and flex-start B200 GPUs, 8 GPUs of all regions, ")
    assert "B200" not in second  # another region's
    assert "GPUs of all regions" in second


ODD = (None, True, -7, 1.5, float("inf"), "", "text", [], ["text"], {}, {"value": "9"}, [{}], [None], [[1]])


def _spoilt(value: Any) -> Iterator[Any]:
    """The value with each part of it in turn replaced by each odd one."""
    yield from ODD
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in parts:
        for odd in _spoilt(part):
            copy = value.copy()
            copy[key] = odd
            yield copy


@pytest.mark.slow
@pytest.mark.parametrize("settings", [SPOT, RESERVED], ids=["spot", "reserved"])
def test_no_answer_of_whatever_form_ends_the_look(settings: Settings) -> None:
    said = answered(settings)
    for name, answer in said.items():
        for odd in _spoilt(answer):
            try:
                found = judge(settings, {**said, name: odd})
            except Exception as error:
                raise AssertionError(f"{name}: {odd!r}") from error
            assert all(row.write for row in found if row.severity in ("error", "unknown"))


def test_gpus_on_demand_are_judged_by_their_family_and_looked_for_by_their_machine() -> None:
    h100 = make_settings(machine="a3-highgpu-8g", capacity={"mode": "on-demand"}, server={"replicas": 1})
    families = [
        limit(64, "europe-west4", region="europe-west4", gpu_family="NVIDIA_H200"),
        limit(4, "europe-west4", region="europe-west4", gpu_family="NVIDIA_H100"),
    ]
    found = rows(
        h100,
        quota_GPUS_PER_GPU_FAMILY=[quota("GPUS-PER-GPU-FAMILY-per-project-region", *families)],
        quota_SSD_TOTAL_GB=[quota("SSD-TOTAL-GB-per-project-region", limit(500))],
        accelerator_types=[zoned("acceleratorTypes", "nvidia-h100-80gb", "europe-west4-b")],
    )
    gpus = found["H100 GPUs, europe-west4"]
    assert (gpus.allowed, gpus.found, gpus.severity) == ("at least 8", 4, "error")
    assert "--dimensions=region=europe-west4,gpu_family=NVIDIA_H100" in gpus.write.split()
    assert found["nvidia-h100-80gb"].severity == "passed"
    assert found["a3-highgpu-8g"].severity == "error"
