"""Writes policy/README.md from the rules themselves, or checks that it is up to date.

python -m docs.generate.policy_readme           write it
python -m docs.generate.policy_readme --check   exit 1 if it would change
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

PACK: Final = Path(__file__).resolve().parents[2] / "policy"
README: Final = PACK / "README.md"
SUBJECTS: Final = ("serving", "capacity", "storage", "network", "rollout", "scaling", "security", "cost")
"""In the order in which a fleet meets them."""

_HEAD: Final = """\
# llm-fleet: a policy pack for LLM fleets on Kubernetes

<!-- Generated from the rules by `make policy-readme`. Edit the rules. -->

{count} rules over rendered resources, whoever wrote them: this program, another one, or a hand. They know vLLM 0.18.1 and
0.33.0, the GPU machines of GKE Autopilot and the Qwen3.5 family best, and say nothing of what they do not know.

```sh
pip install -r policy/requirements.txt
pulumi preview --policy-pack policy --policy-pack-config policy/config/STACK.json
```

`make policy-pack` assembles a folder that needs nothing beside it: copy that into any project. `fleet preview` asks the
same pack without the Pulumi CLI and without credentials. [docs/policies.md](../docs/policies.md) says how to set levels
and settings and how to add a rule.

- **mandatory** stops an update, **advisory** does not. Each rule argues its level in its *why*; a stack's config file may
  set another.
- Traffic cannot be read from a manifest. Servers declare it in annotations of the pod template:
  `vllm-fleet.dev/context-tokens` (longest prompt plus answer) and `vllm-fleet.dev/concurrency-per-replica` (requests in
  flight).
- A workload that reproduces a published result says so in `vllm-fleet.dev/reproduces` and names the rules it breaks for
  that in `vllm-fleet.dev/on-purpose`. Rules marked ° then speak through the advisory `repeated-on-purpose` instead.
- Values that are not known during a preview are not judged; Pulumi says which rules that stopped.
"""


def readme() -> str:
    """The whole file."""
    if str(PACK) not in sys.path:
        sys.path.insert(0, str(PACK))
    from rule import all_rules  # type: ignore[import-not-found]  # the pack's own folder

    rules = all_rules()
    if other := {rule.subject for rule in rules} - set(SUBJECTS):
        raise ValueError(f"no heading for the subject {', '.join(sorted(other))}")
    parts = [_HEAD.format(count=len(rules) + 1), "\n".join(_overview(rules))]
    for subject in SUBJECTS:
        parts.append(f"## {subject.capitalize()}\n")
        parts += ["\n".join(_details(rule)) for rule in rules if rule.subject == subject]
    parts.append("## On purpose\n")
    parts.append(
        "### repeated-on-purpose\n\nA workload that reproduces a published result says which rules it breaks for that.\n\n"
        "- *advisory, low*. One verdict for each rule that is broken, with what that rule says. Make it mandatory where "
        "nothing may be reproduced, such as in production.\n"
    )
    return "\n".join(parts)


if TYPE_CHECKING:
    from typing import Protocol

    class Described(Protocol):
        """What a rule says about itself; the pack's own classes are not on this checker's path."""

        name: str
        subject: str
        statement: str
        evidence: str
        fix: str
        level: str
        severity: str
        settings: tuple[Any, ...]


def _overview(rules: Iterable[Described]) -> Iterator[str]:
    yield "| subject | rule | level | severity | what holds |"
    yield "| --- | --- | --- | --- | --- |"
    by_subject = sorted(rules, key=lambda rule: SUBJECTS.index(rule.subject))
    for rule in by_subject:
        name = f"[{rule.name}](#{rule.name}){_mark(rule)}"
        yield f"| {rule.subject} | {name} | {rule.level} | {rule.severity} | {_cell(rule.statement)} |"
    yield ""


def _details(rule: Described) -> Iterator[str]:
    yield f"### {rule.name}"
    yield ""
    yield f"{_text(rule.statement)}{_mark(rule)}"
    yield ""
    yield f"- *{rule.level}, {rule.severity}*, judges {'one resource' if _is_about_one(rule) else 'the stack'}"
    yield f"- Why: {_text(rule.evidence)}"
    yield f"- Fix: {_text(rule.fix)}"
    for setting in rule.settings:
        default = "unset" if setting.default is None else f"`{json.dumps(setting.default)}`"
        unit = f", {setting.unit}" if setting.unit else ""
        yield f"- Setting `{setting.name}` ({setting.type}{unit}; default {default}): {_text(setting.why)}"
    yield ""


def _is_about_one(rule: Described) -> bool:
    return type(rule).__name__ == "Rule"


def _mark(rule: Described) -> str:
    return " °" if getattr(rule, "lesson", "") else ""


def _text(text: str) -> str:
    """Plain text as Markdown: what looks like HTML would vanish."""
    return text.replace("<", "&lt;").replace("*", "\\*")


def _cell(text: str) -> str:
    return _text(text).replace("|", "\\|")


def main(arguments: list[str]) -> int:
    """Write the file, or with --check compare it. Returns the exit code."""
    if arguments not in ([], ["--check"]):
        print("usage: python -m docs.generate.policy_readme [--check]", file=sys.stderr)  # noqa: T201
        return 2
    text = readme()
    if not arguments:
        README.write_text(text, encoding="utf-8")
        return 0
    if README.is_file() and README.read_text(encoding="utf-8") == text:
        return 0
    print("policy/README.md is not what the rules say: run `make policy-readme`", file=sys.stderr)  # noqa: T201
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
