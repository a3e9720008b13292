"""What is typed on the engine of the `pulumi` lines of every page, in the page's order, and what is left out for a reason."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from lab.engine.pulumi import Said
from tests.guides.world import World
from tests.settings.checks.test_model import LLAMA

Look = Callable[[World, Said], None]
"""Checks what a line did, beyond its exit code and words."""


@dataclass(frozen=True, slots=True)
class Typed:
    """A line that is typed."""

    line: str
    says: tuple[str, ...] = ()
    """Patterns of its output."""
    given: str = ""
    """What the reader enters."""
    before: tuple[str, ...] = ()
    """Other command lines of the page, or edits of the stack file, that come first."""
    look: Look | None = None


@dataclass(frozen=True, slots=True)
class Page:
    """The typed lines of a page and what the reader has before the first. Its other lines are typed elsewhere, or left out."""

    steps: tuple[Typed, ...]
    names: Mapping[str, str] = field(default_factory=dict)
    """The reader's own, for the words in capitals."""
    has: Mapping[str, bool] = field(default_factory=dict)
    """Stacks that exist already, and whether they are up. The last one is selected."""
    copies: Mapping[str, str] = field(default_factory=dict)
    """Stacks with a stack file of the reader's own, by the shipped one that it is a copy of."""


PROJECT: Final = {"MY-PROJECT": "my-project", "PROJECT": "my-project"}
CREATED, UPDATED, UNCHANGED = r"\+ \d+ created", r"~ \d+ updated", r"Resources:\n +\d+ unchanged"


def policies(stack: str) -> str:
    """The options of the policy pack."""
    return f"--stack {stack} --policy-pack policy --policy-pack-config policy/config/{stack}.json"


def secret(key: str) -> Typed:
    """`pulumi config set --secret`, which asks for the value."""

    def look(world: World, said: Said) -> None:
        assert "hush-hush" not in f"{said.stdout}{said.stderr}"
        files = "".join(path.read_text(encoding="utf-8") for path in world.folder.glob("Pulumi.*.yaml"))
        assert re.search(rf"vllm-fleet:{key.removeprefix('vllm-fleet:')}:\n +secure: v1:", files)
        assert "hush-hush" not in files

    return Typed(f"pulumi config set --secret {key}", given="hush-hush", look=look)


def new_key(world: World, _: Said) -> None:
    """The next update replaces the key's Secret and restarts the servers."""
    said = world.type("pulumi up --stack dev")
    assert said.code == 0, said
    assert re.search(r"core/v1:Secret server-api-key replaced", said.stdout), said.stdout
    assert re.search(r"apps/v1:Deployment server-deployment updated", said.stdout), said.stdout


def kubeconfig(world: World, said: Said) -> None:
    """The output is a kubeconfig."""
    files = [said.stdout, *(path.read_text() for path in world.folder.glob("*kubeconfig"))]
    assert any(json.loads(text)["kind"] == "Config" for text in files if text)


def outputs(world: World, said: Said) -> None:
    """The outputs are whole, secrets included."""
    file = world.folder / "outputs.json"
    found = json.loads(file.read_text() if file.exists() else said.stdout)
    assert {"endpoint", "clusterName", "server"} <= found.keys()
    assert json.loads(found["kubeconfig"])["kind"] == "Config"


def replicas(number: int) -> Look:
    """The servers' Deployment has so many replicas."""

    def look(world: World, _: Said) -> None:
        found = [
            one.outputs["spec"]["replicas"]
            for stack in world.pulumi.stacks()
            for one in world.pulumi.state(stack).resources
            if one.type == "kubernetes:apps/v1:Deployment" and one.name == "server-deployment"
        ]
        assert found == [number], found

    return look


def gone(world: World, _: Said) -> None:
    """Nothing is left in the state."""
    assert all(not world.pulumi.state(stack).resources for stack in world.pulumi.stacks())


LEFT_OUT: Final[Mapping[str, str]] = {
    "pulumi stack ls --tag workload=llm-inference": "needs Pulumi Cloud",
    "pulumi install": "needs an installed Pulumi; the test of the checkout in an environment installs with pip",
    "pulumi preview --stack dev --policy-pack vllm-fleet/policy --policy-pack-config policy/config/dev.json": (
        "of a program that the reader has"
    ),
    "pulumi env open ORGANIZATION/PROJECT/NAME pulumiConfig": "needs Pulumi Cloud",
    "pulumi stack output --json": "docs/rollout.md types it with secrets",
    "pulumi login gs://STATE": "needs a bucket at Google",
    "pulumi stack init organization/vllm-fleet/dev --secrets-provider "
    "gcpkms://projects/PROJECT/locations/europe-west4/keyRings/pulumi/cryptoKeys/state": "needs a key at Google",
    "pulumi config set --path vllm-fleet:rollout.weight 5 --stack serving": "dev has no gateway",
    "pulumi config set --path vllm-fleet:rollout.weight 0 --stack serving": "dev has no gateway",
}
"""Lines that are typed nowhere, with the reason."""

PAGES: Final[Mapping[str, Page]] = {
    "README.md": Page(
        (
            Typed("pulumi login", ("Logged in",)),
            Typed("pulumi stack init smoke", ("Created stack 'smoke'",)),
            Typed("pulumi config set gcp:project MY-PROJECT --stack smoke"),
            Typed(f"pulumi preview {policies('smoke')}", (r"\+ \d+ to create", "Policies:")),
            Typed(f"pulumi up {policies('smoke')}", (CREATED,), look=replicas(1)),
            Typed("pulumi destroy --stack smoke", (r"- \d+ deleted",), look=gone),
        ),
        PROJECT,
    ),
    "docs/first-up.md": Page(
        (
            Typed("pulumi stack init dev", ("Created stack 'dev'",)),
            Typed("pulumi config set gcp:project PROJECT --stack dev"),
            Typed(f"pulumi preview {policies('dev')}", (r"\+ \d+ to create", "Policies:")),
            Typed("pulumi up --stack dev", (CREATED,), look=replicas(1)),
            Typed("pulumi stack --show-urns --stack dev", ("urn:pulumi:dev::vllm-fleet::vllm-fleet:infra:Cluster",)),
        ),
        PROJECT,
    ),
    "docs/gateway.md": Page(
        (
            Typed(
                "pulumi up --stack STACK",
                (CREATED,),
                before=("pulumi config set --path vllm-fleet:gateway.hostname llm.acme.dev --stack gateway",),
            ),
            Typed("pulumi stack output dns --stack STACK --json", ('"CNAME"', "llm.acme.dev")),
        ),
        {"STACK": "gateway"},
        {"gateway": False},
    ),
    "docs/batch.md": Page(
        (
            Typed("pulumi stack init first"),
            Typed("pulumi config set gcp:project PROJECT --stack first"),
            Typed("pulumi up --stack first", (CREATED,), look=replicas(0)),
        ),
        PROJECT,
    ),
    "docs/google-cloud.md": Page(
        (
            Typed("pulumi up --skip-preview", (UNCHANGED,)),
            Typed("pulumi up --stack spot", (CREATED,)),
            Typed("pulumi stack init code"),
            Typed("pulumi config set gcp:project PROJECT --stack code"),
            Typed("pulumi up --stack code", (CREATED,)),
        ),
        PROJECT,
        {"spot": False, "dev": True},
    ),
    "docs/monitoring.md": Page(tuple(map(secret, ("slackToken", "pagerdutyKey"))), has={"prod": False}),
    "docs/operate.md": Page(
        (
            Typed("pulumi stack output readme --stack dev", (r"kubectl -n vllm-dev", r"fleet verify --stack dev")),
            Typed("pulumi stack output kubeconfig --show-secrets --stack dev > fleet.kubeconfig", look=kubeconfig),
            Typed("pulumi up --stack dev", (UNCHANGED,)),
            Typed("pulumi stack output --stack dev", ("endpoint", "profile", "modelRevision", "usdPerHour")),
            Typed("pulumi config set --path vllm-fleet:server.replicas 0 --stack dev"),
            Typed("pulumi up --stack dev", (UPDATED,), look=replicas(0)),
            Typed("pulumi config rm --path vllm-fleet:server.replicas --stack dev"),
            Typed("pulumi config set --path vllm-fleet:cluster.deletionProtection false --stack dev"),
            Typed("pulumi up --stack dev"),
            Typed("pulumi destroy --stack dev", (r"- \d+ deleted",), look=gone),
        ),
        has={"dev": True},
    ),
    "docs/own-model.md": Page(
        (
            Typed(
                "pulumi stack init own",
                before=(
                    f"echo {shlex.quote(json.dumps(LLAMA))} > our-model.json",
                    "fleet plan --users 50 --model our-model.json --machine g2-standard-12 --region us-central1-a --write own",
                ),
            ),
            Typed("pulumi config set gcp:project my-project --stack own"),
            Typed("pulumi config set --path vllm-fleet:model.id my-team/our-model-8b --stack own"),
            Typed(f"pulumi config set --path vllm-fleet:model.revision {'0123456789abcdef' * 2}01234567 --stack own"),
            Typed("pulumi config set --path vllm-fleet:weights.tokenSecret hf-team --stack own"),
        )
    ),
    "docs/plan.md": Page(
        (
            Typed(
                "pulumi stack init production",
                before=(
                    "fleet plan --users 16000 --profile tuned --capacity cud-1y --usd-per-node-hour 88.93"
                    " --machine a4-highgpu-8g --write production",
                ),
            ),
            Typed("pulumi config set gcp:project my-project --stack production"),
            Typed("pulumi config set --path 'vllm-fleet:capacity.name' b200-production --stack production"),
        )
    ),
    "docs/rollout.md": Page(
        (
            Typed(
                "pulumi up --stack serving",
                (CREATED,),
                before=("pulumi config set --path vllm-fleet:rollout.engine.maxNumSeqs 256 --stack serving",),
            ),
            Typed("pulumi stack output --json --show-secrets --stack serving > outputs.json", look=outputs),
            Typed(
                "pulumi up --stack serving",
                (UPDATED,),
                before=("pulumi config set --path vllm-fleet:server.engine.maxNumSeqs 256 --stack serving",),
            ),
            Typed(
                "pulumi up --stack serving",
                (r"- \d+ deleted",),
                before=("pulumi config rm vllm-fleet:rollout --stack serving",),
            ),
        ),
        copies={"serving": "dev"},
        has={"serving": True},
    ),
    "docs/server.md": Page(
        (
            secret("apiKey"),
            Typed(
                "pulumi config set --secret apiKey", given="another", before=("pulumi up --stack dev",), look=new_key
            ),
        ),
        has={"dev": False},
    ),
    "docs/weights.md": Page((secret("vllm-fleet:hfToken"),), has={"dev": False}),
    "facts/signals/runbook.md": Page(
        (Typed("pulumi up --refresh --stack STACK", (UNCHANGED,)),),
        {"STACK": "smoke"},
        {"smoke": True},
    ),
}
