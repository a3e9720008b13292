"""The levers are pulled for a whole process, so each of these tests has one of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

from fleet.preview.record import quick_sdk

ROOT = Path(__file__).parents[4]

RECORD = """
import json, sys
from pathlib import Path
from fleet.preview.record import quick_sdk
if sys.argv[1] == "lazy":
    quick_sdk.install()
from fleet.preview.offline import open_stack
from fleet.preview.record.recorder import record
from fleet.preview.record.redact import Redactor
from fleet.preview.record.values import reveal
root = Path()
recording = record(
    root, project="vllm-fleet", stack="spot", mode=sys.argv[2],
    config={**open_stack(root, "spot").config, "vllm-fleet:hfToken": "notatoken"},
    secret_keys=["vllm-fleet:hfToken"],
)
for one in recording.resources:
    print(one)
    print(json.dumps(Redactor().value(reveal(dict(one.inputs))), sort_keys=True))
print(dict(recording.outputs), recording.diagnostics)
print("modules", len([name for name in sys.modules if name.startswith(("pulumi_gcp", "pulumi_kubernetes"))]),
      file=sys.stderr)
"""


def python(code: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def recorded(levers: str) -> tuple[str, int]:
    """The recorded resources and how many modules of the SDKs were loaded for them."""
    done = python(RECORD, levers, "known")
    assert done.returncode == 0, done.stderr
    return done.stdout, int(done.stderr.rpartition("modules ")[2])


@pytest.fixture(scope="module")
def plain() -> tuple[str, int]:
    return recorded("plain")


@pytest.mark.slow
def test_the_recorded_graph_is_the_same_with_and_without_the_levers(plain: tuple[str, int]) -> None:
    lazy, few_modules = recorded("lazy")
    assert lazy == plain[0]
    assert lazy.count("RecordedResource(") > 60
    assert few_modules < plain[1] / 2


LOADED = """
import json, sys
from fleet.preview.record import quick_sdk
quick_sdk.KNOWN.update(json.loads(sys.argv[1]))
quick_sdk.install()
from pulumi_gcp import storage
from pulumi_kubernetes.core import v1
storage.Bucket, v1.Secret
print("pulumi_gcp.storage.notification" in sys.modules, "pulumi_kubernetes.core.v1.ConfigMap" in sys.modules)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("known", "environment", "loaded"),
    [
        ({}, {}, "False False"),
        ({"pulumi_gcp": "10.1.0"}, {}, "True False"),
        ({"pulumi_kubernetes": "4.33.0"}, {}, "False True"),
        ({}, {quick_sdk.SWITCH: "1"}, "True True"),
    ],
    ids=["as pinned", "other gcp", "other kubernetes", "switched off"],
)
def test_it_steps_aside_for_versions_it_does_not_know_and_when_it_is_switched_off(
    known: dict[str, str], environment: dict[str, str], loaded: str
) -> None:
    """Whether modules are loaded that nobody has named."""
    done = python(LOADED, json.dumps(known), **environment)
    assert done.stdout.strip() == loaded, done.stderr


def test_the_pinned_versions_are_known() -> None:
    """After an upgrade: run the slow tests here and `make preview-speed`, then write the new version in `KNOWN`."""
    assert {name: metadata.version(name) for name in quick_sdk.KNOWN} == quick_sdk.KNOWN


COMPARE = """
import importlib, json, sys
if sys.argv[1] == "lazy":
    from fleet.preview.record import quick_sdk
    quick_sdk.install()
import pulumi
from pulumi import _types

def told(thing):
    # Kind, home, bases, documentation; of a generated class also every type that the SDK resolves.
    hints = {}
    if isinstance(thing, type) and thing.__module__.startswith(("pulumi_gcp", "pulumi_kubernetes")):
        if issubclass(thing, pulumi.Resource):
            hints = _types.resource_types(thing)
        elif _types.is_input_type(thing):
            hints = _types.input_type_types(thing)
        elif _types.is_output_type(thing):
            hints = _types.output_type_types(thing)
    bases = [base.__qualname__ for base in getattr(thing, "__mro__", ())]
    return [type(thing).__name__, getattr(thing, "__module__", None), bases, str(hints), getattr(thing, "__doc__", None)]

result = {}
for name in sys.argv[2].split(","):
    module = importlib.import_module(name)
    names = json.loads(sys.argv[3])[name]
    for key in names:
        result[f"{name}.{key}"] = told(getattr(module, key))
print(json.dumps(result, sort_keys=True))
"""

NAMES = """
import importlib, json, sys
print(json.dumps({name: [key for key in vars(importlib.import_module(name)) if key[0].isupper() or "get_" in key]
                  for name in sys.argv[1].split(",")}))
"""


@pytest.mark.slow
def test_every_name_of_a_package_is_there_and_means_the_same() -> None:
    """Each class, nested type and function of three packages: bases, documentation, resolved types of properties."""
    packages = "pulumi_gcp.storage,pulumi_gcp.storage.outputs,pulumi_kubernetes.policy.v1,pulumi_kubernetes.batch.v1"
    names = python(NAMES, packages).stdout
    assert sum(len(found) for found in json.loads(names).values()) > 300
    plain = python(COMPARE, "plain", packages, names)
    lazy = python(COMPARE, "lazy", packages, names)
    assert plain.returncode == 0, plain.stderr
    assert lazy.returncode == 0, lazy.stderr
    assert json.loads(lazy.stdout) == json.loads(plain.stdout)


LAZY = """
import sys
from fleet.preview.record import quick_sdk
quick_sdk.install()
before = len(sys.meta_path)
quick_sdk.install()
print("installed twice", len(sys.meta_path) - before)

from pulumi_gcp import compute
compute.Network
print("loaded", "pulumi_gcp.compute.network" in sys.modules, "pulumi_gcp.compute.disk" in sys.modules)

# A class hides the module of its name in whatever order they load.
import pulumi_kubernetes as k8s
k8s.core.v1.SecretInitArgs
import pulumi_kubernetes.core.v1.ConfigMap
print(k8s.core.v1.Secret.__name__, type(k8s.core.v1.Secret).__name__, k8s.core.v1.ConfigMap.__mro__[1].__name__)

from pulumi_gcp import container
args = container.ClusterReleaseChannelArgs(channel="RAPID")
print(args.channel, container.ClusterReleaseChannelArgs is container._inputs.ClusterReleaseChannelArgs)
from pulumi_gcp.container import ClusterReleaseChannelArgs, get_cluster_output
print(ClusterReleaseChannelArgs is container.ClusterReleaseChannelArgs, get_cluster_output.__name__)

from pulumi_gcp import serviceaccount
try:
    serviceaccount.Acount
except AttributeError as error:
    print(error)
print(hasattr(serviceaccount, "__wrapped__"))
"""


def test_a_class_loads_its_own_module_and_names_mean_what_they_do_without_the_levers() -> None:
    done = python(LAZY)
    assert done.stdout.splitlines() == [
        "installed twice 0",
        "loaded True False",
        "Secret type CustomResource",
        "RAPID True",
        "True get_cluster_output",
        "module 'pulumi_gcp.serviceaccount' has no attribute 'Acount'",
        "False",
    ], done.stderr
