"""One context of somebody's kubeconfig."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from rehearsal.control_plane.kubeconfig import minified
from rehearsal.results import RehearsalError


def write(folder: Path, **changes: Any) -> Path:
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {"name": "kind", "cluster": {"server": "https://127.0.0.1:1", "certificate-authority": "certs/ca.pem"}},
            {"name": "prod", "cluster": {"server": "https://203.0.113.1"}},
        ],
        "users": [
            {"name": "me", "user": {"client-certificate": "/abs/me.pem", "client-key": "me.key"}},
            {"name": "google", "user": {"exec": {"command": "/opt/bin/gke-gcloud-auth-plugin"}}},
            {"name": "script", "user": {"exec": {"command": "./login", "args": ["-x"]}}},
        ],
        "contexts": [
            {"name": "kind-kind", "context": {"cluster": "kind", "user": "me"}},
            {"name": "gke", "context": {"cluster": "prod", "user": "google"}},
            {"name": "scripted", "context": {"cluster": "kind", "user": "script"}},
            {"name": "broken", "context": {"cluster": "gone", "user": "me"}},
        ],
        "current-context": "kind-kind",
    }
    path = folder / "config"
    path.write_text(yaml.safe_dump({**document, **changes}))
    return path


def test_the_current_context_alone_is_kept_with_absolute_paths_and_for_its_owner(tmp_path: Path) -> None:
    target = tmp_path / "out"
    assert minified(write(tmp_path), None, target) == "kind-kind"
    assert target.stat().st_mode & 0o777 == 0o600
    found = yaml.safe_load(target.read_text())
    assert [one["name"] for one in found["contexts"]] == ["kind-kind"]
    assert found["clusters"][0]["cluster"]["certificate-authority"] == str(tmp_path / "certs" / "ca.pem")
    assert found["users"][0]["user"] == {"client-certificate": "/abs/me.pem", "client-key": str(tmp_path / "me.key")}


def test_a_login_program_beside_the_kubeconfig_is_still_found(tmp_path: Path) -> None:
    target = tmp_path / "out"
    minified(write(tmp_path), "scripted", target)
    login = yaml.safe_load(target.read_text())["users"][0]["user"]["exec"]
    assert login == {"command": str(tmp_path / "login"), "args": ["-x"]}


@pytest.mark.parametrize(
    ("context", "changes", "message"),
    [
        ("gke", {}, "logs in to GKE.*cost money"),
        ("nope", {}, "has no context nope; it has: kind-kind, gke, scripted, broken"),
        ("broken", {}, "has no cluster gone; it has: kind, prod"),
        (None, {"current-context": ""}, "has no current context; name one of: kind-kind"),
    ],
)
def test_an_unusable_context_is_refused_in_words(
    tmp_path: Path, context: str | None, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(RehearsalError, match=message):
        minified(write(tmp_path, **changes), context, tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("text", ["", "- a\n", "{", "just words"])
def test_a_file_that_is_no_kubeconfig_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "config"
    path.write_text(text)
    with pytest.raises(RehearsalError, match=r"is no kubeconfig|cannot be read as a kubeconfig"):
        minified(path, None, tmp_path / "out")


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RehearsalError, match="cannot be read as a kubeconfig"):
        minified(tmp_path / "none", None, tmp_path / "out")
