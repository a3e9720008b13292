"""The outputs of a stack that is up: from a file, or asked of Pulumi.

The kubeconfig among them carries no credentials of its own (`gke-gcloud-auth-plugin` brings the user's), but says where the
control plane is; it is a secret output, so it is never printed and lies on disk only in a private file while it is needed.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from fleet.clients.errors import LiveError
from fleet.clients.stopping import stopped_by_exception
from settings import strict_json, strict_yaml
from settings.names import CREDENTIALS_PLUGIN
from settings.problems import SettingsError

PULUMI_SECONDS: Final = 120.0
"""Assumed: reading a stack's state from Pulumi Cloud or from a bucket takes seconds; a passphrase prompt would take for ever."""
COMMAND: Final = "pulumi stack output --json --show-secrets"
"""What prints the outputs, without the stack's name."""
_SHIELDED: Final = "[secret]"
"""What Pulumi prints in place of a secret output without --show-secrets."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StackOutputs:
    """What a stack told when it was brought up."""

    stack: str
    endpoint: str
    """Base URL as pods of the cluster's network reach it: the server's Service or the gateway."""
    cluster: str
    """Name of the GKE cluster."""
    project: str
    """Project id of the cluster, and of its bucket and metrics."""
    region: str
    """Location of the cluster."""
    image_prefix: str
    """`LOCATION-docker.pkg.dev/PROJECT/REPOSITORY`, in front of a Docker Hub image's name."""
    bucket: str
    """Name of the bucket for results."""
    kubeconfig: str = field(repr=False)
    """Secret."""
    model_revision: str
    profile: str
    usd_per_hour: float | None
    """What the stack costs; None where the stack does not say."""
    usd_is_at_least: bool
    """Whether prices are missing from it."""

    @contextlib.contextmanager
    def kubeconfig_file(self) -> Iterator[Path]:
        """The kubeconfig in a file that only this user can read, removed on every way out, SIGTERM and SIGHUP included."""
        with stopped_by_exception():
            folder = Path(tempfile.mkdtemp(prefix="fleet-kubeconfig-"))  # mode 0700
            try:
                file = folder / "config"
                with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as to:
                    to.write(self.kubeconfig)
                yield file
            finally:
                shutil.rmtree(folder, ignore_errors=True)


def read(stack: str, root: Path, file: Path | None = None) -> StackOutputs:
    """The outputs of a stack: from `file`, else by running Pulumi in the project's folder `root`.

    Raises LiveError: no such file, no Pulumi, not logged in, no such stack, never brought up, an output missing.
    """
    source, given = _from_file(file) if file is not None else _from_pulumi(stack, root)
    return accept(stack, given, source)


def accept(stack: str, given: object, source: str) -> StackOutputs:
    """Outputs as Pulumi prints them. `source` says where they are from. Raises LiveError with what is missing and what makes it."""
    if not isinstance(given, Mapping):
        raise LiveError(
            f"{source} holds no outputs: expected one JSON object, as `{COMMAND} --stack {stack}` prints it"
        )
    if not given:
        raise LiveError(
            f"stack {stack} has no outputs: it has not been brought up, or was destroyed. Run `pulumi up --stack {stack}` first"
        )
    platform = given.get("platform")
    if not isinstance(platform, Mapping):
        raise _missing(stack, source, "platform", platform)

    def text(key: str) -> str:
        value = given.get(key)
        if not isinstance(value, str) or value in ("", _SHIELDED):
            raise _missing(stack, source, key, value)
        return value

    def of_platform(key: str) -> str:
        value = platform.get(key)
        if not isinstance(value, str) or not value:
            raise _missing(stack, source, f"platform.{key}", value)
        return value

    usd = given.get("usdPerHour")
    return StackOutputs(
        stack=stack,
        endpoint=text("endpoint").rstrip("/"),
        cluster=text("clusterName"),
        project=of_platform("project"),
        region=of_platform("region"),
        image_prefix=of_platform("imagePrefix"),
        bucket=of_platform("resultsBucket"),
        kubeconfig=_kubeconfig_text(stack, source, given.get("kubeconfig")),
        model_revision=text("modelRevision"),
        profile=text("profile"),
        usd_per_hour=float(usd) if isinstance(usd, int | float) and not isinstance(usd, bool) else None,
        usd_is_at_least=bool(given.get("usdPerHourIsAtLeast", False)),
    )


def _from_file(file: Path) -> tuple[str, Any]:
    source = f"--outputs {file}"
    try:
        text = file.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise LiveError(f"{source}: there is no such file; write it with `{COMMAND} --stack NAME > {file}`") from None
    except (OSError, UnicodeDecodeError) as error:
        raise LiveError(f"{source} cannot be read: {error}") from None
    try:
        return source, strict_json.loads(text)
    except ValueError as error:
        # Not the text itself: it may hold the kubeconfig.
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
            "pulumi is not on the PATH, and it knows the stack's outputs. Install it (https://www.pulumi.com/docs/install/), or "
            f"run {source} where it is and pass its output with --outputs FILE",
            reason="missing program",
        ) from None
    except subprocess.TimeoutExpired:
        raise LiveError(f"{source} did not end within {PULUMI_SECONDS:.0f} s", reason="timeout") from None
    if done.returncode != 0:
        raise _pulumi_failed(stack, source, done.stderr)
    try:
        return source, strict_json.loads(done.stdout)
    except ValueError:
        raise LiveError(
            f"{source} printed something that is not JSON; `pulumi version` says which Pulumi this is"
        ) from None


def _pulumi_failed(stack: str, source: str, said: str) -> LiveError:
    """Pulumi's own words with what to do. Source of the words: pulumi, pkg/cmd/pulumi and pkg/secrets/passphrase."""
    lines = [line.strip().removeprefix("error: ") for line in said.splitlines() if line.strip()]
    words = " ".join(lines[-3:])[:500] or "it said nothing"
    low = said.lower()
    if "access_token must be set" in low or "not logged in" in low or "pulumi login" in low or "[401]" in low:
        what = "Pulumi is not logged in here: run `pulumi login`, with the backend that the stack's state is in"
        return LiveError(f"{source} failed: {words}. {what}", reason="credentials")
    if "passphrase" in low:
        what = "set PULUMI_CONFIG_PASSPHRASE or PULUMI_CONFIG_PASSPHRASE_FILE: the stack's secrets are locked with it"
        return LiveError(f"{source} failed: {words}. To mend it, {what}", reason="credentials")
    if "no stack named" in low or re.search(r"\bstack\b.*\bnot found\b", low):
        what = f"`pulumi stack ls` names those of this backend; `pulumi up --stack {stack}` makes this one"
        return LiveError(f"there is no stack {stack} that is up: {words}. {what}", reason="not found")
    return LiveError(f"{source} failed: {words}")


def _missing(stack: str, source: str, key: str, value: object) -> LiveError:
    if value == _SHIELDED:
        return LiveError(
            f"{source}: output `{key}` is hidden; print the outputs with --show-secrets: `{COMMAND} --stack {stack}`"
        )
    return LiveError(
        f"{source}: stack {stack} has no output `{key}`. Every stack of this program has it once `pulumi up --stack {stack}` "
        "has ended well with this version of the program: run it, or check that these are this stack's outputs"
    )


def _kubeconfig_text(stack: str, source: str, value: object) -> str:
    # Pulumi prints an output that is JSON text as that text; a file that went through other hands may hold the object.
    text = json.dumps(value) if isinstance(value, Mapping) else value
    if not isinstance(text, str) or text in ("", _SHIELDED):
        raise _missing(stack, source, "kubeconfig", value)
    try:
        config = strict_yaml.load(text.encode(), name="kubeconfig", stack=stack)
    except SettingsError:  # its text may hold credentials
        raise LiveError(f"{source}: output `kubeconfig` of stack {stack} is not YAML that every reader takes") from None
    users = config.get("users") if isinstance(config, dict) else None
    for one in users if isinstance(users, list) else ():
        user = one.get("user") if isinstance(one, dict) else None
        _check_user(source, user if isinstance(user, dict) else {})
    return text


def _check_user(source: str, user: Mapping[str, Any]) -> None:
    """Refuse what kubectl would run or read on this machine because a kubeconfig says so. Raises LiveError."""
    run = user.get("exec", {"command": CREDENTIALS_PLUGIN})
    wrong = sorted(user.keys() & {"auth-provider", "tokenFile"})
    if not isinstance(run, dict) or run.get("command") != CREDENTIALS_PLUGIN or run.get("env"):
        wrong.append("exec")
    if wrong:
        raise LiveError(
            f"{source}: a user of output `kubeconfig` has {', '.join(wrong)}; only {CREDENTIALS_PLUGIN} is run, without variables of its "
            "own, and no file is read. To reach the cluster in another way, pass a kubeconfig that you trust with --kubeconfig"
        )
