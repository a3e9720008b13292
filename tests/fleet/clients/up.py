"""A stack that is up, for commands that read its outputs: a project, Google on loopback, and a stand-in for kubectl."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from settings.profiles import profile
from tests.fleet.cli.command import project
from tests.fleet.clients.fake_google import TOKEN, FakeGoogle
from tests.fleet.clients.programs import in_front
from tests.fleet.clients.test_stack_outputs import outputs


def up(folder: Path, google: FakeGoogle, kubectl: Path, stack: str, **changes: Any) -> dict[str, str]:
    """Write a project with the stack `try` and, to `outputs.json`, its outputs with these changes; returns the environment of `fleet`."""
    project(folder / "project", **{"try": stack})
    model = profile("serve-chat").model
    assert model is not None
    given: dict[str, Any] = {
        "kubeconfig": json.dumps({"apiVersion": "v1", "kind": "Config"}),
        "profile": "serve-chat",
        "modelRevision": model.revision,
        "project": "fleet-tests",
        **changes,
    }
    (folder / "outputs.json").write_text(json.dumps(outputs(**given)), encoding="utf-8")
    (folder / "tmp").mkdir(exist_ok=True)
    return {
        "PATH": in_front(kubectl.parent),
        "GOOGLE_OAUTH_ACCESS_TOKEN": TOKEN,
        "CLOUDSDK_API_ENDPOINT_OVERRIDES_STORAGE": google.url,
        "CLOUDSDK_API_ENDPOINT_OVERRIDES_MONITORING": google.url,
        "TMPDIR": str(folder / "tmp"),
    }
