"""What becomes of every `pulumi` line of every page: typed on the engine, in the page's order, here or where another test or page types
it, or left out for a reason."""

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
    code: int = 0
    given: str = ""
    """What the reader enters."""
    before: tuple[str, ...] = ()
    """Other command lines of the page, or edits of the stack file, that come first."""
    look: Look | None = None


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """A line that a test types which needs more than this shell."""

    line: str
    test: str
    text: str = ""
    """The line as the test has it, where that differs."""


@dataclass(frozen=True, slots=True)
class AsOn:
    """A line that another page has typed, or this one before: at most a stack's name, a policy pack or a file is another."""

    line: str
    page: str
    typed: str
    """The line of that page."""


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A line that cannot be typed without a cloud."""

    line: str
    reason: str


Step = Typed | Elsewhere | AsOn | LeftOut


@dataclass(frozen=True, slots=True)
class Page:
    """The lines of a page and what the reader has before the first."""

    steps: tuple[Step, ...]
    names: Mapping[str, str] = field(default_factory=dict)
    """The reader's own, for the words in capitals."""
    has: Mapping[str, bool] = field(default_factory=dict)
    """Stacks that exist already, and whether they are up. The last one is selected."""
    copies: Mapping[str, str] = field(default_factory=dict)
    """Stacks with a stack file of the reader's own, by the shipped one that it is a copy of."""


PROJECT: Final = {"MY-PROJECT": "my-project"}
CREATED, UPDATED, UNCHANGED = r"\+ \d+ created", r"~ \d+ updated", r"Resources:\n +\d+ unchanged"
OWN_CLUSTER: Final = 'pulumi config set --secret kubeconfig "$(kubectl config view --minify --flatten)"'
ENGINE_CLOUD: Final = "needs Pulumi Cloud"


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


def as_on(page: str, typed: str, own: str, *lines: str) -> tuple[AsOn, ...]:
    """Lines that are typed there with the stack `typed`, and here have the stack `own`."""
    return tuple(AsOn(line, page, line.replace(own, typed)) for line in lines)


def of_example(name: str) -> tuple[str, Page]:
    """The stack file of an example that runs on the reader's own cluster."""
    return f"docs/examples/{name}/Pulumi.example.yaml", Page(
        (Elsewhere(OWN_CLUSTER, "test_examples.py", "OWN_CLUSTER"),)
    )


STACK = "${outputs.stack}"
FIRST_UP = "test_first_up.py"
FIRST_STEPS, OPERATE, ROLLOUT, RUNBOOK = (
    "docs/first-up.md",
    "docs/operate.md",
    "docs/rollout.md",
    "facts/signals/runbook.md",
)
ALL_OUTPUTS = "pulumi stack output --json --show-secrets --stack serving > outputs.json"

PAGES: Final[Mapping[str, Page]] = {
    "README.md": Page(
        (
            Typed("pulumi login", ("Logged in",)),
            Typed("pulumi stack init smoke", ("Created stack 'smoke'",)),
            Typed("pulumi config set gcp:project MY-PROJECT --stack smoke"),
            Typed(f"pulumi preview {policies('smoke')}", (r"\+ \d+ to create", "Policies:")),
            Typed(f"pulumi up {policies('smoke')}", (CREATED,), look=replicas(1)),
            *as_on(
                OPERATE,
                "dev",
                "smoke",
                "pulumi config set --path vllm-fleet:server.replicas 0 --stack smoke",
                "pulumi up --stack smoke",
            ),
            Typed("pulumi destroy --stack smoke", (r"- \d+ deleted",), look=gone),
        ),
        PROJECT,
    ),
    "Pulumi.README.md": Page(
        (
            AsOn(
                f"pulumi stack output kubeconfig --show-secrets --stack {STACK} > kubeconfig",
                OPERATE,
                "pulumi stack output kubeconfig --show-secrets --stack dev > fleet.kubeconfig",
            ),
            *as_on(
                OPERATE,
                "dev",
                STACK,
                f"pulumi config set --path vllm-fleet:server.replicas 0 --stack {STACK}",
                f"pulumi up --stack {STACK}",
                f"pulumi config rm --path vllm-fleet:server.replicas --stack {STACK}",
                f"pulumi config set --path vllm-fleet:cluster.deletionProtection false --stack {STACK}",
                f"pulumi up --stack {STACK}",
                f"pulumi destroy --stack {STACK}",
            ),
        )
    ),
    "Pulumi.cud.yaml": Page((secret("apiKey"),), has={"cud": False}),
    "Pulumi.dev.yaml": Page(
        (
            *as_on(FIRST_STEPS, "dev", "dev", "pulumi stack init dev"),
            AsOn(
                "pulumi config set gcp:project MY-PROJECT --stack dev",
                FIRST_STEPS,
                "pulumi config set gcp:project PROJECT --stack dev",
            ),
            *as_on(FIRST_STEPS, "dev", "dev", "pulumi up --stack dev"),
        )
    ),
    "Pulumi.smoke.yaml": Page(
        (
            *as_on(
                "README.md",
                "smoke",
                "smoke",
                "pulumi stack init smoke",
                "pulumi config set gcp:project MY-PROJECT --stack smoke",
            ),
            AsOn("pulumi up --stack smoke", "README.md", f"pulumi up {policies('smoke')}"),
        )
    ),
    "Pulumi.yaml": Page((LeftOut("pulumi stack ls --tag workload=llm-inference", ENGINE_CLOUD),)),
    "docs/first-up.md": Page(
        (
            Typed("pulumi stack init dev", ("Created stack 'dev'",)),
            Typed("pulumi config set gcp:project PROJECT --stack dev"),
            Typed(f"pulumi preview {policies('dev')}", (r"\+ \d+ to create", "Policies:")),
            Typed("pulumi up --stack dev", (CREATED,), look=replicas(1)),
            Elsewhere("pulumi cancel --stack dev", FIRST_UP),
            Elsewhere("pulumi cancel --stack dev", FIRST_UP),
            Elsewhere("pulumi refresh --clear-pending-creates --stack dev", FIRST_UP),
            Elsewhere(
                "PULUMI_K8S_UPSERT_EXISTING_OBJECTS=true pulumi up --stack dev",
                FIRST_UP,
                "PULUMI_K8S_UPSERT_EXISTING_OBJECTS=true {UP}",
            ),
            Elsewhere("pulumi up --stack dev", FIRST_UP),
            Typed("pulumi stack --show-urns --stack dev", ("urn:pulumi:dev::vllm-fleet::vllm-fleet:infra:Cluster",)),
            Elsewhere(
                "pulumi import TYPE NAME ID --parent parent=PARENT --protect=false --generate-code=false --stack dev",
                FIRST_UP,
            ),
            Elsewhere("pulumi refresh --clear-pending-creates --stack dev", FIRST_UP),
            Elsewhere("pulumi up --stack dev", FIRST_UP),
        ),
        {"PROJECT": "my-project"},
    ),
    "docs/from-the-article.md": Page(
        (
            AsOn(
                "pulumi config set gcp:project …", "README.md", "pulumi config set gcp:project MY-PROJECT --stack smoke"
            ),
            AsOn(
                "pulumi config set --secret hfToken", "docs/weights.md", "pulumi config set --secret vllm-fleet:hfToken"
            ),
            AsOn(
                "pulumi stack output kubeconfig --show-secrets",
                OPERATE,
                "pulumi stack output kubeconfig --show-secrets --stack dev > fleet.kubeconfig",
            ),
        )
    ),
    "docs/gateway.md": Page(
        (
            LeftOut("pulumi up --stack STACK", "a change of the picker's release, which is rehearsed"),
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
        {"PROJECT": "my-project"},
    ),
    "docs/google-cloud.md": Page(
        (
            Typed("pulumi up --skip-preview", (UNCHANGED,)),
            Typed("pulumi up --stack spot", (CREATED,)),
            Typed("pulumi stack init code"),
            Typed("pulumi config set gcp:project PROJECT --stack code"),
            Typed("pulumi up --stack code", (CREATED,)),
        ),
        {"PROJECT": "my-project"},
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
    "docs/own-program.md": Page(
        (
            LeftOut(
                "pulumi install",
                "needs an installed Pulumi; the test of the checkout in an environment installs with pip",
            ),
            LeftOut(
                "pulumi preview --stack dev --policy-pack vllm-fleet/policy --policy-pack-config policy/config/dev.json",
                "of a program that the reader has",
            ),
            Elsewhere("pulumi stack init example", "test_examples.py"),
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
    "docs/policies.md": Page(
        (AsOn(f"pulumi preview {policies('spot')}", "README.md", f"pulumi preview {policies('smoke')}"),)
    ),
    "docs/prefill-apart.md": Page(
        (LeftOut("pulumi up --stack apart", "needs a stack file with server.shape, and none ships"),)
    ),
    "docs/preview.md": Page(
        (
            LeftOut("pulumi env open ORGANIZATION/PROJECT/NAME pulumiConfig", ENGINE_CLOUD),
            AsOn("pulumi stack output --json", ROLLOUT, ALL_OUTPUTS),
        )
    ),
    "docs/pull-requests.md": Page(
        (
            LeftOut("pulumi login gs://STATE", "needs a bucket at Google"),
            LeftOut(
                "pulumi stack init organization/vllm-fleet/dev --secrets-provider "
                "gcpkms://projects/PROJECT/locations/europe-west4/keyRings/pulumi/cryptoKeys/state",
                "needs a key at Google",
            ),
        )
    ),
    "docs/rollout.md": Page(
        (
            Typed(
                "pulumi up --stack serving",
                (CREATED,),
                before=("pulumi config set --path vllm-fleet:rollout.engine.maxNumSeqs 256 --stack serving",),
            ),
            Typed(ALL_OUTPUTS, look=outputs),
            LeftOut("pulumi config set --path vllm-fleet:rollout.weight 5 --stack serving", "dev has no gateway"),
            *as_on(ROLLOUT, "serving", "serving", "pulumi up --stack serving"),
            LeftOut("pulumi config set --path vllm-fleet:rollout.weight 0 --stack serving", "dev has no gateway"),
            *as_on(ROLLOUT, "serving", "serving", "pulumi up --stack serving"),
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
    "docs/run-a-benchmark.md": Page(
        (
            *as_on("docs/google-cloud.md", "spot", "spot", "pulumi up --stack spot"),
            AsOn("pulumi stack output --json --show-secrets --stack spot", ROLLOUT, ALL_OUTPUTS),
        )
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
    "docs/spending.md": Page(as_on(FIRST_STEPS, "dev", "dev", "pulumi up --stack dev")),
    "docs/verify.md": Page(as_on(ROLLOUT, "serving", "spot", ALL_OUTPUTS.replace("serving", "spot"))),
    "docs/weights.md": Page((secret("vllm-fleet:hfToken"),), has={"dev": False}),
    "policy/README.md": Page(
        (
            AsOn(
                "pulumi preview --policy-pack policy --policy-pack-config policy/config/STACK.json",
                "README.md",
                f"pulumi preview {policies('smoke')}",
            ),
        )
    ),
    RUNBOOK: Page(
        (
            Typed("pulumi up --refresh --stack STACK", (UNCHANGED,)),
            *as_on(RUNBOOK, "STACK", "STACK", *["pulumi up --refresh --stack STACK"] * 2),
            *as_on(OPERATE, "dev", "STACK", "pulumi up --stack STACK", "pulumi up --stack STACK"),
            *as_on(RUNBOOK, "STACK", "STACK", *["pulumi up --refresh --stack STACK"] * 2),
        ),
        {"STACK": "smoke"},
        {"smoke": True},
    ),
    **dict(map(of_example, ("server_on_a_cluster", "two_models", "weights_volume"))),
}
