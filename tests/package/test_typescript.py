"""The TypeScript program, compiled by tsc against types that follow from the package's schema."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.inventory import ROOT

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not os.environ.get("CI") and shutil.which("npm") is None, reason="npm is not installed"),
]

EXAMPLE = ROOT / "docs" / "examples" / "package-typescript"
SCALARS = {"string": "string", "integer": "number", "number": "number", "boolean": "boolean"}


def declarations(schema: dict[str, Any]) -> str:
    """What `pulumi package add` generates of a schema, as far as a program sees it: classes, arguments, enums.

    Source: pulumi, pkg/codegen/nodejs/gen.go: a plain property is a bare value, any other an Input.
    """
    lines = ['import * as pulumi from "@pulumi/pulumi";']
    for token, one in schema["types"].items():
        values = " | ".join(json.dumps(member["value"]) for member in one["enum"])
        lines.append(f"export type {token.rpartition(':')[2]} = {values};")
    for token, one in schema["resources"].items():
        name, required = token.rpartition(":")[2], one.get("requiredInputs", ())
        lines.append(f"export interface {name}Args {{")
        for key, kind in one["inputProperties"].items():
            lines.append(f"{key}{'' if key in required else '?'}: {_type(kind)};")
        lines += ["}", f"export declare class {name} extends pulumi.ComponentResource {{"]
        lines.append(f"constructor(name: string, args: {name}Args, opts?: pulumi.ComponentResourceOptions);")
        lines += [f"readonly {key}: pulumi.Output<{_bare(kind)}>;" for key, kind in one["properties"].items()]
        lines.append("}")
    return "\n".join(lines) + "\n"


def _type(kind: dict[str, Any]) -> str:
    return _bare(kind) if kind.get("plain") else f"pulumi.Input<{_bare(kind)}>"


def _bare(kind: dict[str, Any]) -> str:
    if "$ref" in kind:
        return "any" if kind["$ref"].startswith("pulumi.json") else str(kind["$ref"].rpartition(":")[2])
    if kind["type"] == "array":
        return f"{_type(kind['items'])}[]"
    if kind["type"] == "object":
        return f"{{[key: string]: {_type(kind['additionalProperties'])}}}"
    return SCALARS[kind["type"]]


@pytest.fixture(scope="module")
def installed() -> Path:
    """The example with what its package.json names, installed once and kept in out/, and the package's types."""
    manifest = (EXAMPLE / "package.json").read_bytes()
    folder = ROOT / "out" / "package-typescript" / hashlib.sha256(manifest).hexdigest()[:12]
    if not (folder / "node_modules" / ".complete").exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        (folder / "package.json").write_bytes(manifest)
        install = ["npm", "install", "--ignore-scripts", "--no-audit", "--no-fund", "--no-package-lock"]
        subprocess.run(install, cwd=folder, check=True, capture_output=True, timeout=500)
        (folder / "node_modules" / ".complete").touch()
    package = folder / "node_modules" / "@pulumi" / "vllm-fleet"
    package.mkdir(exist_ok=True)
    schema = json.loads((ROOT / "package" / "schema.json").read_text(encoding="utf-8"))
    (package / "index.d.ts").write_text(declarations(schema), encoding="utf-8")
    return folder


def test_the_program_compiles_and_wrong_ones_do_not(installed: Path) -> None:
    program = (EXAMPLE / "index.ts").read_text(encoding="utf-8")
    wrong = {
        "mode": ('capacity: "on-demand"', 'capacity: "sometimes"'),
        "unit": ("weightsSizeGib: 16", 'weightsSizeGib: "16Gi"'),
        "name": ("zones: [", "zone: ["),
        "unknown-yet": ("config.getNumber", "config.getSecretNumber"),
        "output": ("{ endpoint,", "{ address,"),
    }
    (installed / "index.ts").write_text(program, encoding="utf-8")
    for name, (one, other) in wrong.items():
        assert one in program
        (installed / f"{name}.ts").write_text(program.replace(one, other), encoding="utf-8")
    settings = json.loads((EXAMPLE / "tsconfig.json").read_text(encoding="utf-8"))
    settings["files"] += [f"{name}.ts" for name in wrong]
    (installed / "tsconfig.json").write_text(json.dumps(settings), encoding="utf-8")
    tsc = [installed / "node_modules" / ".bin" / "tsc", "--project", "."]
    done = subprocess.run(tsc, cwd=installed, capture_output=True, text=True)
    complaints = done.stdout.splitlines()
    assert {line.partition(".ts(")[0] for line in complaints if ": error TS" in line} == wrong.keys(), done.stdout
