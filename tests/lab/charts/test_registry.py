"""Charts at their public addresses: through the proxy as Helm asks, and nothing else."""

from __future__ import annotations

import io
import ssl
import tarfile
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from lab.charts import keda
from lab.charts.package import Chart, archive, from_folder
from lab.charts.registry import Registry
from lab.control_plane.credentials import Authority
from lab.control_plane.custom_resources.definitions import KEDA
from lab.results.result import RehearsalError
from workloads.keda.values import METRICS_SERVER, chart_values

METADATA = {"apiVersion": "v2", "name": "sample", "version": "1.2.3", "appVersion": "1.2.3"}


def chart(host: str, path: str, *, is_oci: bool) -> Chart:
    packed = archive(METADATA, {"templates/one.yaml": b"kind: ConfigMap"})
    return Chart(host=host, path=path, is_oci=is_oci, metadata=METADATA, archive=packed)


@pytest.fixture
def authority() -> Authority:
    return Authority()


@pytest.fixture
def registry(authority: Authority) -> Iterator[Registry]:
    charts = (chart("oci.example", "group/sample", is_oci=True), chart("index.example", "charts", is_oci=False))
    with Registry(charts, authority) as running:
        yield running


@pytest.fixture
def get(registry: Registry, authority: Authority) -> Any:
    context = ssl.create_default_context()
    authority.own.configure_trust(context)
    proxy = urllib.request.ProxyHandler({"https": f"http://{registry.address}"})
    opener = urllib.request.build_opener(proxy, urllib.request.HTTPSHandler(context=context))

    def get(address: str) -> bytes:
        with opener.open(f"https://{address}", timeout=10) as answer:
            content: bytes = answer.read()
            return content

    return get


def files_of(packed: bytes) -> dict[str, bytes]:
    with tarfile.open(fileobj=io.BytesIO(packed)) as tar:
        return {one.name: (tar.extractfile(one) or io.BytesIO()).read() for one in tar.getmembers()}


def test_another_host_is_refused_and_remembered_and_another_path_is_not_found(get: Any, registry: Registry) -> None:
    with pytest.raises(urllib.error.URLError):
        get("elsewhere.example/")
    assert registry.refused == ["elsewhere.example"]
    with pytest.raises(urllib.error.HTTPError, match="404"):
        get("index.example/charts/other.tgz")


def test_a_folder_is_packaged_with_its_library(tmp_path: Path) -> None:
    for name, extra in (
        ("library", {}),
        ("sample", {"dependencies": [{"name": "library", "repository": "file://../library"}]}),
    ):
        (tmp_path / name / "templates").mkdir(parents=True)
        (tmp_path / name / "Chart.yaml").write_text(yaml.safe_dump({"apiVersion": "v2", "name": name, **extra}))
        (tmp_path / name / "templates" / "one.yaml").write_text("kind: ConfigMap")
    metadata, packed = from_folder(tmp_path / "sample", "2.0.0")
    assert (metadata["name"], metadata["version"]) == ("sample", "2.0.0")
    assert "sample/charts/library/templates/one.yaml" in files_of(packed)
    with pytest.raises(RehearsalError, match=r"Chart\.yaml"):
        from_folder(tmp_path, "2.0.0")


@pytest.mark.slow
def test_kedas_small_chart_takes_the_programs_values_and_names() -> None:
    from lab.control_plane.modules import module_folders

    made = keda.chart(module_folders(print))
    files = files_of(made.archive)
    templates = "\n---\n".join(text.decode() for name, text in files.items() if "/templates/" in name)
    for key in chart_values()["resources"]:
        assert f".Values.resources).{key} " in templates
    assert METRICS_SERVER in templates
    assert "kind: APIService" in templates
    assert "ValidatingWebhookConfiguration" not in templates


def test_the_users_own_chart_takes_the_place_of_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "Chart.yaml").write_text(yaml.safe_dump({"apiVersion": "v2", "name": "keda", "version": "2.20.2"}))
    (tmp_path / "own.txt").write_text("mine")
    monkeypatch.setenv(keda.OWN, str(tmp_path))
    assert files_of(keda.chart({KEDA: tmp_path}).archive)["keda/own.txt"] == b"mine"
