from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from fleet.preview.record.recording import RecordedResource
from fleet.preview.record.values import UNKNOWN, Secret
from fleet.preview.render import MARKER, RenderError, render
from tests.fleet.preview.programs import TOKEN, whole_fleet


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "out"


def manifests(folder: Path) -> list[dict[str, object]]:
    return [yaml.safe_load(path.read_text()) for path in sorted((folder / "kubernetes").iterdir())]


def test_every_kubernetes_object_is_a_file_in_dependency_order(out: Path) -> None:
    files = render(whole_fleet("known"), out)
    names = [path.name for path in files if path.parent.name == "kubernetes"]
    assert names[0] == "001-namespace-vllm-gateway.yaml"
    assert names == sorted(names)
    deployment = next(index for index, name in enumerate(names) if "deployment-qwen35-server" in name)
    claim = next(index for index, name in enumerate(names) if "persistentvolumeclaim" in name)
    assert claim < deployment
    kinds = [resource.type for resource in whole_fleet("known").resources if resource.type.startswith("kubernetes:")]
    assert len(names) == len(kinds) - 1  # the chart has a folder of its own


def test_manifests_are_what_a_cluster_takes(out: Path) -> None:
    render(whole_fleet("known"), out)
    for manifest in manifests(out):
        assert list(manifest)[:3] == ["apiVersion", "kind", "metadata"]
        assert manifest["metadata"]["name"]  # type: ignore[index]
        assert "status" not in manifest
    deployment = next(manifest for manifest in manifests(out) if manifest["kind"] == "Deployment")
    assert deployment["spec"]["replicas"] == 8  # type: ignore[index]


def test_no_secret_is_written_anywhere(out: Path) -> None:
    for path in render(whole_fleet("known"), out):
        assert TOKEN not in path.read_text()
    secret = next(manifest for manifest in manifests(out) if manifest["kind"] == "Secret")
    assert secret["stringData"] == {"token": "[secret]"}


def test_charts_are_written_with_their_values(out: Path) -> None:
    known = whole_fleet("known")
    release = next(one for one in known.resources if one.type == "kubernetes:helm.sh/v3:Release")
    keyed = replace(release, inputs={**release.inputs, "values": {"apiKey": Secret(TOKEN), "replicas": 1}})
    render(replace(known, resources=(keyed,)), out)
    chart = yaml.safe_load(next((out / "helm").glob("*.chart.yaml")).read_text())
    assert chart["version"] == "v1.4.0"
    assert chart["namespace"] == "vllm-gateway"
    values = yaml.safe_load(next((out / "helm").glob("*.values.yaml")).read_text())
    assert values == {"apiKey": "[secret]", "replicas": 1}


def test_google_cloud_resources_are_json_with_whole_references(out: Path) -> None:
    render(whole_fleet("known"), out)
    cluster = json.loads(next((out / "google-cloud").glob("*-cluster-*.json")).read_text())
    assert cluster["inputs"]["network"].endswith("/projects/offline-preview/global/networks/gateway-vllm")
    assert cluster["protect"] is False


def test_the_index_lists_every_file(out: Path) -> None:
    files = render(whole_fleet("known"), out)
    index = json.loads((out / "index.json").read_text())
    assert {out / one["file"] for one in index["files"]} == set(files) - {out / "index.json"}
    assert (index["project"], index["stack"]) == ("vllm-fleet", "gateway")
    assert all(one["urn"] in whole_fleet("known").by_urn for one in index["files"])


def test_rendering_twice_gives_the_same_bytes_and_drops_old_files(out: Path) -> None:
    first = {path: path.read_bytes() for path in render(whole_fleet("known"), out)}
    (out / "kubernetes" / "999-left-over.yaml").write_text("old")
    assert {path: path.read_bytes() for path in render(whole_fleet("known"), out)} == first
    assert not (out / "kubernetes" / "999-left-over.yaml").exists()
    assert [path.name for path in out.parent.iterdir()] == ["out"]


def test_a_folder_of_somebody_elses_is_refused_and_left_alone(out: Path) -> None:
    out.mkdir()
    (out / "mine.txt").write_text("precious")
    with pytest.raises(RenderError, match="was not written by `fleet preview --out`"):
        render(whole_fleet("known"), out)
    assert [path.name for path in out.iterdir()] == ["mine.txt"]


def test_a_file_in_the_way_is_refused(out: Path) -> None:
    out.write_text("")
    with pytest.raises(RenderError, match="is not a folder"):
        render(whole_fleet("known"), out)


def test_an_empty_folder_is_taken(out: Path) -> None:
    out.mkdir()
    render(whole_fleet("known"), out)
    assert (out / MARKER).is_file()


def test_an_unknown_value_names_the_resource_and_the_property_and_writes_nothing(out: Path) -> None:
    known = whole_fleet("known")
    render(known, out)
    before = (out / "index.json").read_bytes()
    broken = tuple(
        replace(one, inputs={**one.inputs, "spec": {"ports": [{"port": UNKNOWN}]}})
        if one.name == "server-service"
        else one
        for one in known.resources
    )
    with pytest.raises(RenderError, match=r"core/v1:Service::server-service: spec\.ports\[0\]\.port") as caught:
        render(replace(known, resources=broken), out)
    assert "1 unknown value(s)" in str(caught.value)
    assert (out / "index.json").read_bytes() == before


def test_many_unknown_values_are_counted(out: Path) -> None:
    known = whole_fleet("known")
    lost: dict[str, object] = {f"key{index}": UNKNOWN for index in range(14)}
    inputs = {"metadata": {"name": "n"}, "data": lost}
    resource = RecordedResource(urn="u", type="kubernetes:core/v1:ConfigMap", name="n", inputs=inputs)
    with pytest.raises(RenderError, match=r"14 unknown value\(s\)[\s\S]*and 4 more"):
        render(replace(known, resources=(resource,)), out)


def test_a_preview_recording_is_not_rendered(out: Path) -> None:
    with pytest.raises(ValueError, match="known-mode"):
        render(whole_fleet("preview"), out)


def test_an_object_without_a_name_gets_the_one_the_provider_would_give(out: Path) -> None:
    known = whole_fleet("known")
    resource = RecordedResource(
        urn="u",
        type="kubernetes:core/v1:ConfigMap",
        name="n",
        inputs={"apiVersion": "v1", "kind": "ConfigMap"},
        outputs={"metadata": {"name": "n-12345678"}},
    )
    (file, _) = render(replace(known, resources=(resource,)), out)
    assert file.name == "001-configmap-n-12345678.yaml"
    assert yaml.safe_load(file.read_text())["metadata"] == {"name": "n-12345678"}


def test_a_failure_while_writing_leaves_the_old_folder_and_no_rubbish(
    out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    render(whole_fleet("known"), out)

    def no_space(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(Path, "write_text", no_space)
        with pytest.raises(RenderError, match="No space left on device"):
            render(whole_fleet("known"), out)
    assert (out / "index.json").is_file()
    assert [path.name for path in out.parent.iterdir()] == ["out"]
