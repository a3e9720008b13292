"""Breaks a stack in one place: what a drill must notice. A change that hits nothing is an error of the test."""

from __future__ import annotations

import contextlib
import textwrap
from collections.abc import Iterator

from lab.engine.pulumi import Pulumi
from lab.stage.stage import Stage
from tests.support.driven_pulumi import import_state

PROGRAM = "whole_program.py"
HITS = "hits.txt"
_HEAD = """
import runpy
import time

import pulumi


def broken(kind, name, props, opts):
{body}


def transformed(args):
    if broken(args.type_.rpartition(":")[2], args.name, args.props, args.opts):
        with open({hits!r}, "a") as hits:
            hits.write(args.name + "\\n")
    return pulumi.ResourceTransformResult(props=args.props, opts=args.opts)


pulumi.runtime.register_resource_transform(transformed)
runpy.run_path({program!r}, run_name="__main__")
"""

STAMPED = """
if kind == "ConfigMap":
    props["data"] = {**props["data"], "at": str(time.time())}
    return True
"""
"""A program that is never the same twice."""
UNLIMITED = """
if kind == "ResourceQuota":
    props["spec"]["hard"] = dict.fromkeys(props["spec"]["hard"], "10000")
    return True
"""
"""A quota that refuses nothing."""
PRIVILEGED = """
if kind == "Deployment":
    props["spec"]["template"]["spec"]["containers"][0]["securityContext"] = {"privileged": True}
    return True
"""
"""A server that Autopilot refuses."""


@contextlib.contextmanager
def broken(stage: Stage, *bodies: str) -> Iterator[None]:
    """Whatever the program registers in the block reaches the engine changed.

    `bodies`: of a function of `kind`, `name`, `props` (the properties as the provider gets them) and `opts`, which says whether it changed
    one.
    """
    folder = stage.updates.pulumi.project.folder
    program, whole = folder / "__main__.py", folder / PROGRAM
    program.rename(whole)
    found = ["hit = False"]
    for number, body in enumerate(bodies):
        found += [f"def one_{number}():", textwrap.indent(body.strip(), "    "), f"hit = bool(one_{number}()) or hit"]
    found.append("return hit")
    program.write_text(
        _HEAD.format(body=textwrap.indent("\n".join(found), "    "), hits=str(folder / HITS), program=PROGRAM)
    )
    try:
        yield
        assert (folder / HITS).is_file(), "the stack has nothing to break like this"
    finally:
        (folder / HITS).unlink(missing_ok=True)
        whole.replace(program)


def retain(pulumi: Pulumi, stack: str, *kinds: str) -> None:
    """Write into the state that resources of these kinds are kept, as if the program had said `retain_on_delete`."""
    exported = pulumi.export(stack)
    for kind in kinds:
        hits = [resource for resource in exported["deployment"]["resources"] if resource["type"].endswith(f":{kind}")]
        assert hits, f"the stack has no {kind}"
        for hit in hits:
            hit["retainOnDelete"] = True
    import_state(pulumi, stack, exported)
