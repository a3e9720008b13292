"""Outputs of a running stack, from a file or from Pulumi.

The kubeconfig contains no credentials (`gke-gcloud-auth-plugin` adds the user's) but reveals the
control plane's address. It is a secret output: never printed, and on disk only in a private temporary file.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from facts import strict_json
from facts.names import CREDENTIALS_PLUGIN
from fleet.clients.errors import LiveError
from fleet.clients.scratch import scratch
from settings import strict_yaml
from settings.problems import SettingsError

PULUMI_SECONDS: Final = 120.0
"""Timeout. Assumed: reading a state takes seconds; a passphrase prompt would never end."""
COMMAND: Final = "pulumi stack output --json --show-secrets"
"""Command that prints the outputs, without the stack's name."""
_SHIELDED: Final = "[secret]"
"""Pulumi's placeholder for a secret output without --show-secrets."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StackOutputs:
    """Outputs of a stack."""

    stack: str
    endpoint: str
    """Base URL in the cluster's network: the server's Service or the gateway."""
    cluster: str
    """Name of the GKE cluster."""
    project: str
    """Project id of the cluster, and of its bucket and metrics."""
    region: str
    """Location of the cluster."""
    image_prefix: str
    """`LOCATION-docker.pkg.dev/PROJECT/REPOSITORY`, the prefix of Docker Hub image names."""
    bucket: str
    """Name of the bucket for results."""
    batch_bucket: str | None
    """Name of the bucket of batches; None without them."""
    kubeconfig: str = field(repr=False)
    """Secret."""
    model_revision: str
    profile: str
    usd_per_hour: float | None
    """Price of the stack; None if not output."""

    @contextlib.contextmanager
    def kubeconfig_file(self) -> Iterator[Path]:
        """The kubeconfig in a private temporary file, removed on exit, including SIGTERM and SIGHUP."""
        with scratch("kubeconfig") as folder:
            file = folder / "config"
            with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as to:
                to.write(self.kubeconfig)
            yield file


def read(stack: str, root: Path, file: Path | None = None) -> StackOutputs:
    """Outputs of a stack, from `file` or by running Pulumi in `root`.

    Raises LiveError: file not found, Pulumi not installed, not logged in, unknown stack, no outputs, missing output.
    """
    source, given = _from_file(file) if file is not None else _from_pulumi(stack, root)
    return accept(stack, given, source)


def accept(stack: str, given: object, source: str) -> StackOutputs:
    """Parses Pulumi's outputs. `source`: their origin. Raises LiveError for a missing output, with a fix."""
    if not isinstance(given, Mapping):
        raise LiveError(
            f"{source} contains no outputs: expected one JSON object, as printed by `{COMMAND} --stack {stack}`"
        )
    if not given:
        raise LiveError(
            f"stack {stack} has no outputs: it is not up, or was destroyed. Run `pulumi up --stack {stack}` first"
        )

    def text(key: str) -> str:
        value = given.get(key)
        if not isinstance(value, str) or value in ("", _SHIELDED):
            raise _missing(stack, source, key, value)
        return value

    usd = given.get("usdPerHour")
    return StackOutputs(
        stack=stack,
        endpoint=text("endpoint").rstrip("/"),
        cluster=text("clusterName"),
        project=text("project"),
        region=text("region"),
        image_prefix=text("imagePrefix"),
        bucket=text("resultsBucket"),
        batch_bucket=given["batchBucket"] if isinstance(given.get("batchBucket"), str) else None,
        kubeconfig=_kubeconfig_text(stack, source, given.get("kubeconfig")),
        model_revision=text("modelRevision"),
        profile=text("profile"),
        usd_per_hour=float(usd) if isinstance(usd, int | float) and not isinstance(usd, bool) else None,
    )


def _from_file(file: Path) -> tuple[str, Any]:
    source = f"--outputs {file}"
    try:
        text = file.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise LiveError(f"{source}: file not found; write it with `{COMMAND} --stack NAME > {file}`") from None
    except (OSError, UnicodeDecodeError) as error:
        raise LiveError(f"{source} cannot be read: {error}") from None
    try:
        return source, strict_json.loads(text)
    except ValueError as error:
        # Do not show the text: it may contain the kubeconfig.
        raise LiveError(f"{source} is not JSON ({error}); write it with `{COMMAND} --stack NAME > {file}`") from None


def _from_pulumi(stack: str, root: Path) -> tuple[str, Any]:
    command = [*COMMAND.split(), "--stack", stack, "--non-interactive"]
    source = f"`{COMMAND} --stack {stack}`"
    try:
        done = subprocess.run(
            command,
            cwd=root,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PULUMI_SECONDS,
            check=False,
        )
    except FileNotFoundError:
        raise LiveError(
            "pulumi is not on the PATH and is needed for the stack's outputs. Install it (https://www.pulumi.com/docs/install/), or "
            f"run {source} on another machine and pass its output with --outputs FILE",
            reason="missing program",
        ) from None
    except subprocess.TimeoutExpired:
        raise LiveError(f"{source} did not end within {PULUMI_SECONDS:.0f} s", reason="timeout") from None
    if done.returncode != 0:
        raise _pulumi_failed(stack, source, done.stderr)
    try:
        return source, strict_json.loads(done.stdout)
    except ValueError:
        raise LiveError(f"{source} did not print JSON; check `pulumi version`") from None


def _pulumi_failed(stack: str, source: str, said: str) -> LiveError:
    """Pulumi's own words, and how to find the stack: a backend without a login or another backend is the usual cause."""
    lines = [line.strip().removeprefix("error: ") for line in said.splitlines() if line.strip()]
    words = " ".join(lines[-3:])[:500] or "it said nothing"
    return LiveError(
        f"{source} failed: {words}. `pulumi login` chooses the backend of the stack's state, `pulumi stack ls` lists its stacks, "
        f"`pulumi up --stack {stack}` creates this one"
    )


def _missing(stack: str, source: str, key: str, value: object) -> LiveError:
    if value == _SHIELDED:
        return LiveError(
            f"{source}: output `{key}` is hidden; print the outputs with --show-secrets: `{COMMAND} --stack {stack}`"
        )
    return LiveError(
        f"{source}: stack {stack} has no output `{key}`, which a successful `pulumi up --stack {stack}` "
        "with this version of the program creates: run it, or check that these are this stack's outputs"
    )


def _kubeconfig_text(stack: str, source: str, value: object) -> str:
    # Pulumi prints an output with JSON as text; other tools may have parsed it.
    text = json.dumps(value) if isinstance(value, Mapping) else value
    if not isinstance(text, str) or text in ("", _SHIELDED):
        raise _missing(stack, source, "kubeconfig", value)
    try:
        config = strict_yaml.load(text.encode(), name="kubeconfig", stack=stack)
    except SettingsError:  # its text may contain credentials
        raise LiveError(f"{source}: output `kubeconfig` of stack {stack} is not valid YAML") from None
    users = config.get("users") if isinstance(config, dict) else None
    for one in users if isinstance(users, list) else ():
        user = one.get("user") if isinstance(one, dict) else None
        _check_user(source, user if isinstance(user, dict) else {})
    return text


def _check_user(source: str, user: Mapping[str, Any]) -> None:
    """Refuse a kubeconfig that makes kubectl run programs or read files on this machine. Raises LiveError."""
    run = user.get("exec", {"command": CREDENTIALS_PLUGIN})
    wrong = sorted(user.keys() & {"auth-provider", "tokenFile"})
    if not isinstance(run, dict) or run.get("command") != CREDENTIALS_PLUGIN or run.get("env"):
        wrong.append("exec")
    if wrong:
        raise LiveError(
            f"{source}: a user in output `kubeconfig` has {', '.join(wrong)}; only {CREDENTIALS_PLUGIN} is allowed, without environment "
            "variables or files. To reach the cluster otherwise, pass a trusted kubeconfig with --kubeconfig"
        )
