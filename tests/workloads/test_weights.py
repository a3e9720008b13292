"""The weights as a release: objects, their order, their names, and what each of them must not do."""

from __future__ import annotations

import os
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pulumi
import pytest

from fleet.preview.record.recorder import Recording
from fleet.preview.record.values import Secret
from settings.sections.model import Model
from settings.stack import Settings
from tests.settings.checks.test_parsers import own
from tests.support.recorded import manifest, needs, objects, recorded_component
from tests.support.schemas import problems
from tests.support.settings import make_settings
from tests.workloads.args import weights_args
from workloads.pod_programs import FOLDER
from workloads.weights.weights import (
    Weights,
    WeightsArgs,
    download_minutes,
    image_class_fields,
    model_path,
    reader_class_fields,
    release_names,
    writer_class_fields,
)

TOKEN = "hf_notatokenbutlongenough"
CLASS = "vllm-test-weights-qwen3-5-27b-fp8-2e1b213"
VOLUME = "weights-qwen3-5-27b-fp8-2e1b213-64gib"
READER = f"{VOLUME}-2400mibps-b"
HANDLE = "projects/models/global/images/qwen-2e1b213"
IMAGE: dict[str, Any] = {"weights": {"source": "image", "image": HANDLE}}


ADAPTED: dict[str, Any] = {
    "id": "Qwen/Qwen3.5-27B-FP8",
    "adapters": [
        {"name": name, "id": "my-team/lora", "revision": digit * 40, "rank": 16}
        for name, digit in (("support", "0"), ("sales", "1"))
    ],
}


def args(**sections: Any) -> WeightsArgs:
    return weights_args(make_settings(**sections))


def release(**sections: Any) -> Recording:
    def build(settings: Settings, opts: pulumi.ResourceOptions) -> object:
        token = pulumi.Output.secret(TOKEN) if settings.has_hf_token else None
        return Weights("weights", weights_args(settings, token), opts)

    return recorded_component(build, **sections)


def job_pod(recording: Recording) -> dict[str, Any]:
    job = manifest(objects(recording)[f"Job/{VOLUME}"])
    pod: dict[str, Any] = job["spec"]["template"]["spec"]
    return pod


@pytest.fixture(scope="module")
def plain() -> Recording:
    return release()


def test_the_image_is_taken_after_the_job_and_the_readers_come_after_the_image(plain: Recording) -> None:
    made = objects(plain)
    assert made[f"VolumeSnapshotClass/{CLASS}"].inputs["driver"] == "pd.csi.storage.gke.io"
    # Pulumi asks the class whether a Pending claim is fine; a class that is not there yet would make it wait.
    claim = f"PersistentVolumeClaim/{VOLUME}-writer"
    assert needs(plain, made[claim]) == {f"StorageClass/{CLASS}-writer-400mibps"}
    assert claim in needs(plain, made[f"Job/{VOLUME}"])
    assert needs(plain, made[f"VolumeSnapshot/{VOLUME}"]) == {f"Job/{VOLUME}", f"VolumeSnapshotClass/{CLASS}"}
    assert needs(plain, made[f"PersistentVolumeClaim/{READER}"]) == {
        f"VolumeSnapshot/{VOLUME}",
        f"StorageClass/{CLASS}-2400mibps-b",
    }


def test_replacing_a_class_takes_no_claim_along(plain: Recording) -> None:
    for name in (READER, f"{VOLUME}-writer"):
        resource = objects(plain)[f"PersistentVolumeClaim/{name}"]
        assert resource.property_dependencies.get("spec", ()) == ()


def test_pulumi_does_not_wait_for_the_readers_disk_because_it_would_give_up_after_five_minutes(
    plain: Recording,
) -> None:
    reader = objects(plain)[f"PersistentVolumeClaim/{READER}"]
    assert reader.inputs["metadata"]["annotations"] == {"pulumi.com/skipAwait": "true"}
    assert not reader.custom_timeouts


def test_several_zones_share_one_claim_with_one_disk_in_each() -> None:
    several = args(zones=["europe-west4-b", "europe-west4-a"])
    fields = reader_class_fields(several)
    assert fields["parameters"]["enable-multi-zone-provisioning"] == "true"
    assert fields["allowed_topologies"][0]["match_label_expressions"][0]["values"] == [
        "europe-west4-a",
        "europe-west4-b",
    ]
    assert release_names(several).reader.endswith("-a-b")


def test_a_large_volume_is_written_as_slowly_and_cheaply_as_it_may_be() -> None:
    large = writer_class_fields(args(weights={"sizeGib": 10_000}))
    assert large["parameters"]["provisioned-throughput-on-create"] == "1200Mi"


def test_the_stacks_labels_are_on_its_disks() -> None:
    labelled = args(labels={"team": "inference", "cost-centre": "7"})
    for fields in (writer_class_fields(labelled), reader_class_fields(labelled)):
        assert fields["parameters"]["labels"] == "cost-centre=7,team=inference"
    image = image_class_fields(labelled, release_names(labelled))
    assert image["parameters"]["labels"] == "cost-centre=7,fleet=vllm-test,team=inference"


@pytest.mark.parametrize(
    "change",
    [
        {"model": {"id": "Qwen/Qwen3.5-27B-FP8", "revision": "f" * 40, "sizeGb": 29}},
        {"weights": {"sizeGib": 120}},
        {"model": ADAPTED},
    ],
)
def test_what_changes_the_written_volume_gives_it_another_name(change: dict[str, Any]) -> None:
    before, after = release_names(args()), release_names(args(**change))
    assert {before.volume, before.writer, before.reader}.isdisjoint({after.volume, after.writer, after.reader})


@pytest.mark.parametrize("change", [{"weights": {"throughputMibps": 3000}}, {"zones": ["europe-west4-a"]}])
def test_what_changes_only_the_readers_disk_downloads_nothing_anew(change: dict[str, Any]) -> None:
    before, after = release_names(args()), release_names(args(**change))
    assert before.volume == after.volume
    assert before.writer == after.writer
    assert before.reader != after.reader
    assert before.reader_class != after.reader_class


def test_another_release_is_other_resources_of_the_program_and_a_canarys_are_those_of_the_servers() -> None:
    def build(settings: Settings, opts: pulumi.ResourceOptions) -> object:
        first = weights_args(settings)
        servers = Weights("weights", first, opts)
        canary = replace(first, model=first.model.model_copy(update={"revision": "f" * 40}), beside=servers)
        return Weights("weights-canary", canary, opts)

    both = {one.urn for one in recorded_component(build).resources if one.custom}
    taken_over = release(model={"id": "Qwen/Qwen3.5-27B-FP8", "revision": "f" * 40, "sizeGb": 29})
    servers = {one.urn for one in release().resources if one.custom}
    canary = {one.urn for one in taken_over.resources if one.custom}
    assert both == servers | canary
    assert {urn.rpartition("::")[2] for urn in servers & canary} == {"cluster", "weights-account"}


def test_a_long_model_name_stays_within_what_a_job_and_an_image_family_may_have(tmp_path: Path) -> None:
    model = own(tmp_path, "Some-Org/" + "Very.Long_Model-" * 5 + "Qwen3-32B")
    for adapters in (ADAPTED["adapters"][:0], ADAPTED["adapters"]):
        names = release_names(args(model=model | {"adapters": adapters}, weights={"sizeGib": 10_000}))
        # A Job's pods have six more characters than it, and the API cuts names at 63.
        assert len(names.volume) <= 63
        assert len(names.release) <= 63
        assert "." not in names.volume
        assert "--" not in names.volume


def test_another_revision_of_an_adapter_is_another_volume_and_another_rank_is_not() -> None:
    first, second = ADAPTED["adapters"]
    lists = ([first], [first, second | {"revision": "2" * 40}], [first, second], [first, second | {"rank": 64}])
    volumes = [release_names(args(model=ADAPTED | {"adapters": adapters})).volume for adapters in lists]
    assert len(set(volumes[:3])) == 3
    assert volumes[2] == volumes[3]


def test_the_writer_never_mounts_its_claim_read_only(plain: Recording) -> None:
    """A read-only attachment turns a Hyperdisk ML volume into a read-only one, for good."""
    pod = job_pod(plain)
    assert {"name": "weights", "persistentVolumeClaim": {"claimName": f"{VOLUME}-writer"}} in pod["volumes"]
    (container,) = pod["containers"]
    assert {"name": "weights", "mountPath": "/weights"} in container["volumeMounts"]


def test_the_writer_gets_the_pinned_revision_and_the_repositorys_script(plain: Recording) -> None:
    (container,) = job_pod(plain)["containers"]
    environment = {one["name"]: one["value"] for one in container["env"]}
    assert environment["REVISION"] == "2e1b21350ce589fcaafbb3c7d7eac526a7aed582"
    assert environment["MODEL_ID"] == "Qwen/Qwen3.5-27B-FP8"
    data = objects(plain)[f"ConfigMap/{VOLUME}-script"].inputs["data"]
    assert data == {"weights_download.sh": (FOLDER / "weights" / "weights_download.sh").read_text()}


def test_adapters_are_downloaded_before_the_model_each_to_its_own_folder(plain: Recording) -> None:
    recording = release(model=ADAPTED, hfToken=TOKEN)
    volume = release_names(args(model=ADAPTED)).volume
    job = manifest(objects(recording)[f"Job/{volume}"])["spec"]
    pod = job["template"]["spec"]
    (download,) = pod["containers"]
    assert [container["name"] for container in pod["initContainers"]] == ["adapter-1", "adapter-2"]
    for container, adapter in zip(pod["initContainers"], ADAPTED["adapters"], strict=True):
        same = ("image", "command", "resources", "securityContext", "volumeMounts")
        assert {key: container[key] for key in same} == {key: download[key] for key in same}
        given = {one["name"]: one["value"] for one in container["env"]}
        assert given == {one["name"]: one["value"] for one in download["env"]} | {
            "MODEL_ID": adapter["id"],
            "REVISION": adapter["revision"],
            "TARGET": f"/weights/adapters/{adapter['name']}",
        }
    rules = job["podFailurePolicy"]["rules"]
    stopping = [rule["onExitCodes"]["containerName"] for rule in rules if rule["action"] == "FailJob"]
    assert stopping == ["adapter-1", "adapter-2", "download"]
    assert problems(manifest(objects(recording)[f"Job/{volume}"])) == []
    assert "initContainers" not in job_pod(plain)


def test_a_failed_download_is_tried_again_unless_no_try_can_help(plain: Recording) -> None:
    job = objects(plain)[f"Job/{VOLUME}"].inputs
    assert job["metadata"]["annotations"] == {"pulumi.com/replaceUnready": "true"}
    assert job["spec"]["backoffLimit"] == 6
    fail, ignore = job["spec"]["podFailurePolicy"]["rules"]
    assert (fail["action"], fail["onExitCodes"]["values"]) == ("FailJob", [64])
    assert ignore == {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
    assert "ttlSecondsAfterFinished" not in job["spec"]


def test_pulumi_waits_as_long_as_the_job_may_take_and_longer_for_a_larger_model(plain: Recording) -> None:
    job = objects(plain)[f"Job/{VOLUME}"]
    minutes = download_minutes(make_settings().serving.model)
    assert job.custom_timeouts["create"] == f"{minutes}m"
    assert job.inputs["spec"]["activeDeadlineSeconds"] == minutes * 60
    large: dict[str, Any] = {"id": "Qwen/Qwen3.5-397B", "revision": "a" * 40, "size_gb": 230.0}
    assert download_minutes(Model(**large)) > 3 * minutes


def test_a_server_gets_claim_and_path_and_mounts_both_read_only() -> None:
    seen: list[Weights] = []

    def build(settings: Settings, opts: pulumi.ResourceOptions) -> None:
        seen.append(Weights("weights", weights_args(settings), opts))

    recorded_component(build)
    mount = seen[0].mount
    assert mount is not None
    assert mount.claim_name == READER
    assert mount.model_path == model_path(make_settings().serving.model) == "/weights/Qwen/Qwen3.5-27B-FP8"
    assert mount.volume()["persistent_volume_claim"] == {"claim_name": READER, "read_only": True}
    assert mount.volume_mount() == {"name": "weights", "mount_path": "/weights", "read_only": True}
    assert len(mount.depends_on) == 1


def test_an_image_that_is_there_becomes_the_readers_volume_and_nothing_is_downloaded() -> None:
    recording = release(**IMAGE)
    made = objects(recording)
    (content,) = (key for key in made if key.startswith("VolumeSnapshotContent/"))
    (snapshot,) = (key for key in made if key.startswith("VolumeSnapshot/"))
    (reader,) = (key for key in made if key.startswith("PersistentVolumeClaim/"))
    assert set(made) == {content, snapshot, reader, f"StorageClass/{CLASS}-2400mibps-b"}
    assert made[content].inputs["spec"] == {
        "deletionPolicy": "Retain",
        "driver": "pd.csi.storage.gke.io",
        "source": {"snapshotHandle": HANDLE},
        "volumeSnapshotRef": {"kind": "VolumeSnapshot", "name": snapshot.partition("/")[2], "namespace": "vllm"},
    }
    assert made[snapshot].inputs["spec"] == {"source": {"volumeSnapshotContentName": content.partition("/")[2]}}
    assert made[snapshot].inputs["metadata"]["annotations"] == {
        "pulumi.com/waitFor": "jsonpath={.status.readyToUse}=true"
    }
    assert made[reader].inputs["spec"]["dataSource"]["name"] == snapshot.partition("/")[2]
    assert needs(recording, made[snapshot]) == {content}
    assert needs(recording, made[reader]) == {snapshot, f"StorageClass/{CLASS}-2400mibps-b"}
    assert [problems(manifest(resource)) for resource in made.values()] == [[]] * len(made)


def test_another_image_and_the_stacks_own_each_make_a_volume_of_their_own() -> None:
    other = {"weights": {"source": "image", "image": f"{HANDLE}-b"}}
    names = [release_names(args(**sections)) for sections in ({}, IMAGE, other)]
    for field in ("volume", "reader", "image_content"):
        assert len({getattr(one, field) for one in names}) == 3
    assert len({one.release for one in names}) == 1


def test_a_self_link_names_the_same_image() -> None:
    linked = {"weights": {"source": "image", "image": f"https://www.googleapis.com/compute/v1/{HANDLE}"}}
    assert release_names(args(**linked)) == release_names(args(**IMAGE))


def test_nothing_is_written_after_the_last_sync(tmp_path: Path) -> None:
    """The image may be taken the moment the script has ended, of a disk that is still mounted."""
    volume, seen = tmp_path / "volume", tmp_path / "seen"
    (volume / "org" / "model" / ".git").mkdir(parents=True)
    (volume / "org" / "model" / "config.json").write_text("{}")
    (volume / "MANIFEST.sha256").write_text("")
    (volume / "REVISION").write_text(f"org/model {'a' * 40}\n")
    listing = 'ls -AlR --time-style=full-iso "$TARGET"'
    sync = tmp_path / "sync"
    sync.write_text(f"#!/bin/sh\n{listing} >{seen}\n")
    sync.chmod(0o755)
    given = {"MODEL_ID": "org/model", "REVISION": "a" * 40, "REMOTE": "http://nowhere.invalid", "TARGET": str(volume)}
    environment = {**given, "PATH": f"{tmp_path}:{os.environ['PATH']}", "LC_ALL": "C"}
    script = FOLDER / "weights" / "weights_download.sh"
    subprocess.run(["sh", script], env=environment, check=True, capture_output=True)
    after = subprocess.run(["sh", "-c", listing], env=environment, check=True, capture_output=True, text=True)
    assert seen.read_text() == after.stdout


def test_the_hugging_face_token_is_a_secret_and_reaches_the_pod_as_a_file_only() -> None:
    recording = release(hfToken=TOKEN)
    secret = objects(recording)["Secret/hf-token"]
    assert secret.inputs["stringData"] == Secret({"token": TOKEN}) or secret.inputs["stringData"] == {
        "token": Secret(TOKEN)
    }
    pod = job_pod(recording)
    (container,) = pod["containers"]
    environment = {one["name"]: one.get("value") for one in container["env"]}
    assert environment["HF_TOKEN_PATH"] == "/var/run/secrets/hf-token/token"
    assert TOKEN not in str([one.inputs for one in recording.resources])
    assert {"name": "hf-token", "secret": {"secretName": "hf-token", "defaultMode": 0o444}} in pod["volumes"]
    assert "Secret/hf-token" in needs(recording, objects(recording)[f"Job/{VOLUME}"])
    assert problems(manifest(objects(recording)[f"Job/{VOLUME}"])) == []


def test_a_token_in_secret_manager_is_mounted_by_gkes_own_driver() -> None:
    recording = release(weights={"tokenSecret": "hf-read"})
    made = objects(recording)
    assert "Secret/hf-token" not in made
    store = manifest(made["SecretProviderClass/hf-token"])
    assert problems(store) == []
    assert store["spec"]["provider"] == "gke"
    assert "projects/fleet-tests/secrets/hf-read/versions/latest" in store["spec"]["parameters"]["secrets"]
    volume = next(one for one in job_pod(recording)["volumes"] if one["name"] == "hf-token")
    assert volume["csi"]["driver"] == "secrets-store-gke.csi.k8s.io"
    assert volume["csi"]["readOnly"] is True
    assert "SecretProviderClass/hf-token" in needs(recording, made[f"Job/{VOLUME}"])


def test_without_a_token_nothing_mentions_one(plain: Recording) -> None:
    assert "hf-token" not in str([one.inputs for key, one in objects(plain).items() if not key.startswith("ConfigMap")])
