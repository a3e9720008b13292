"""Which `pulumi` a rehearsal uses, and what of the user's environment reaches it."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.control_plane import build
from lab.engine.installation import (
    PROVIDER,
    environment,
    install,
    kubernetes_provider,
    plug_in,
    wanted_provider,
)
from lab.results.result import RehearsalError


def program(folder: Path, body: str) -> Path:
    folder.mkdir()
    path = folder / "pulumi"
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return path


def test_the_users_own_is_used_with_its_own_language_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = program(tmp_path / "real", "echo v3.272.0")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "pulumi").symlink_to(own)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    found = install(tmp_path / "run", pytest.fail)
    assert (found.program, found.version, found.is_users_own) == (own, "v3.272.0", True)
    assert not (tmp_path / "run").exists()


def test_a_broken_one_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{program(tmp_path / 'bin', 'exit 3').parent}:/usr/bin:/bin")
    with pytest.raises(RehearsalError, match="take it off PATH"):
        install(tmp_path / "run", pytest.fail)


def test_nothing_of_the_users_logins_reaches_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = program(tmp_path / "bin", "echo v3.272.0")
    monkeypatch.setenv("PATH", f"{own.parent}:/usr/bin:/bin")
    for name in ("PULUMI_ACCESS_TOKEN", "GOOGLE_APPLICATION_CREDENTIALS", "AWS_PROFILE", "HTTPS_PROXY", "GITHUB_TOKEN"):
        monkeypatch.setenv(name, "mine")
    for name in ("PULUMI_BACKEND_URL", "PULUMI_CONFIG_PASSPHRASE", "KUBECONFIG", "CLOUDSDK_CONFIG"):
        monkeypatch.setenv(name, "mine")
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    home = tmp_path / "home"
    found = environment(install(tmp_path, pytest.fail), home, tmp_path / "state", {"kubernetes": 2, "gcp": 1})
    assert "mine" not in found.values()
    assert found["LC_ALL"] == "C.UTF-8"
    assert found["PULUMI_BACKEND_URL"] == (tmp_path / "state").as_uri()
    assert found["PULUMI_DEBUG_PROVIDERS"] == "gcp:1,kubernetes:2"
    assert found["PATH"].split(":")[0] == str(own.parent)


def test_the_users_provider_is_used_if_it_is_the_sdks_and_found_where_the_engine_looks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "own" / "plugins" / f"resource-kubernetes-{wanted_provider()}"
    folder.mkdir(parents=True)
    (folder / PROVIDER).touch()
    monkeypatch.setenv("PULUMI_HOME", str(tmp_path / "own"))
    found = kubernetes_provider(pytest.fail)
    assert (found.program, found.version) == (folder / PROVIDER, wanted_provider())
    plug_in(found, tmp_path / "home")
    (plugged,) = (tmp_path / "home" / "plugins").glob(f"*/{PROVIDER}")
    assert plugged.resolve() == folder / PROVIDER


def test_another_provider_of_the_user_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "own" / "plugins" / "resource-kubernetes-v4.0.0"
    folder.mkdir(parents=True)
    (folder / PROVIDER).touch()
    monkeypatch.setenv("PULUMI_HOME", str(tmp_path / "own"))
    monkeypatch.setattr(build, "kubernetes_provider", lambda _: tmp_path / "built")
    found = kubernetes_provider(pytest.fail)
    assert (found.program, found.version) == (tmp_path / "built", build.KUBERNETES_PROVIDER.version)
