"""Plays the container runtime: the programs of a benchmark pod, exactly as the Job in the cluster asks for them, as processes here."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

from lab.control_plane.api import CONFIG_MAP, ClusterApi
from tests.fleet.bench.run.kubelet import until
from tests.fleet.bench.run.laptop import NAMESPACE
from tests.fleet.clients.fake_google import FakeGoogle
from tests.support.benchmark import ENVIRONMENT, VLLM_PYTHON, write_tokenizer

LABELS = "metadata.labels['"


def run_pod(api: ClusterApi, pod: dict[str, Any], google: FakeGoogle, server: str, folder: Path) -> int:
    """Run the container `clients` of a pod to its end; its exit code. `server` is what its servers' name resolves to.

    Only what a laptop has elsewhere is put elsewhere: folders, addresses, and the Python that has vLLM.
    """
    (clients,) = [one for one in pod["spec"]["containers"] if one["name"] == "clients"]
    volumes = {volume["name"]: volume for volume in pod["spec"]["volumes"]}
    places = {}
    for mount in clients["volumeMounts"]:
        place = folder / mount["name"]
        place.mkdir(parents=True, exist_ok=True)
        places[mount["mountPath"]] = place
        source = volumes[mount["name"]].get("configMap")
        if source is not None:
            # The Job is made first and owns it; a kubelet waits, too.
            until(lambda name=source["name"]: api.get(CONFIG_MAP, name, NAMESPACE) is not None)
            config = api.get(CONFIG_MAP, source["name"], NAMESPACE) or {}
            for item in source["items"]:
                file = place / item["path"]
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(config["data"][item["key"]], encoding="utf-8")

    def here(text: str) -> str:
        for path in sorted(places, key=len, reverse=True):
            if text.startswith(path) or f"={path}" in text:
                return text.replace(path, str(places[path]), 1)
        return text

    environment = {one["name"]: here(one["value"]) if "value" in one else _field(pod, one) for one in clients["env"]}
    options = [here(argument) for argument in clients["args"] if not argument.startswith("--server-pods=")]
    tokenizer = next(option for option in options if option.startswith("--tokenizer=")).partition("=")[2]
    write_tokenizer(Path(tokenizer))  # the init container's work
    command = [
        *(str(VLLM_PYTHON) if word == "python3" else word for word in clients["command"]),
        *options,
        f"--server-pods={server}",
        *(f"--storage-url={google.url}", f"--metadata-url={google.url}"),
        *("--start-margin-seconds=2", "--progress-seconds=0.5", "--idle-minutes=0.1"),
    ]
    done = subprocess.run(
        command,
        env={**os.environ, **environment, **ENVIRONMENT},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    (folder / "log").write_text(done.stdout + done.stderr, encoding="utf-8")
    return done.returncode


def _field(pod: dict[str, Any], variable: dict[str, Any]) -> str:
    path: str = variable["valueFrom"]["fieldRef"]["fieldPath"]
    assert path.startswith(LABELS)
    return str(pod["metadata"]["labels"][path.removeprefix(LABELS).removesuffix("']")])
