"""Writes policy/README.md from the rules, or checks that it is up to date.

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
SUBJECTS: Final = (
    "serving",
    "capacity",
    "storage",
    "network",
    "rollout",
    "scaling",
    "security",
    "cost",
    "alerting",
)
"""Order of the headings."""

_HEAD: Final = """\
# llm-fleet: a policy pack for LLM fleets on Kubernetes

<!-- Generated from the rules by `make policy-readme`. Edit the rules. -->

{count} rules for rendered resources of this program, of another one, or written manually. They cover vLLM 0.18.1 and 0.33.0, the
GPU machines of GKE Autopilot and the Qwen3.5 family; what they do not know, they do not check.

```sh
pip install -r policy/requirements.txt
pulumi preview --policy-pack policy --policy-pack-config policy/config/STACK.json
```

`make policy-pack` assembles a self-contained folder to copy into any project. `fleet preview` runs the same pack without the
Pulumi CLI or credentials. [docs/policies.md](../docs/policies.md): levels, settings, annotations, adding a rule.

- **mandatory** stops an update, **advisory** does not. *Why* justifies the level; a stack's config file may set another.
- Rules marked ° have [deliberate exceptions](#repeated-on-purpose): their findings in a workload that reproduces a certain published result
  become advisories of `repeated-on-purpose`.
"""


def readme() -> str:
    """The whole file."""
    if str(PACK) not in sys.path:
        sys.path.insert(0, str(PACK))
    from facts.lessons.deliberate import DELIBERATE_EXCEPTIONS
    from rule import all_rules  # type: ignore[import-not-found]  # the pack's own folder

    rules = all_rules()
    if other := {rule.subject for rule in rules} - set(SUBJECTS):
        raise ValueError(f"no heading for the subject {', '.join(sorted(other))}")
    excepted = {one.lesson for one in DELIBERATE_EXCEPTIONS}
    parts = [_HEAD.format(count=len(rules) + 1), "\n".join(_overview(rules))]
    for subject in SUBJECTS:
        parts.append(f"## {subject.capitalize()}\n")
        parts += [
            "\n".join(_details(rule, excepted=rule.name in excepted)) for rule in rules if rule.subject == subject
        ]
    parts.append("## Deliberate exceptions\n")
    exceptions = [f"- `{one.row}` breaks [{one.lesson}](#{one.lesson}): {one.reason}." for one in DELIBERATE_EXCEPTIONS]
    parts.append(
        "### repeated-on-purpose\n\nA workload that reproduces a published result must list the rules that it breaks on purpose. "
        "*Advisory, low*\n\n"
        "- One finding for each broken rule. Make it mandatory where exceptions are not allowed, such as in "
        "production.\n\n"
        "These are all, by published result ([docs/provenance.md](../docs/provenance.md)):\n\n"
        + "\n".join(exceptions)
        + "\n"
    )
    return "\n".join(parts)


if TYPE_CHECKING:
    from typing import Protocol

    class Described(Protocol):
        """A rule's fields; the pack's classes are not on the type checker's path."""

        name: str
        subject: str
        statement: str
        evidence: str
        fix: str
        level: str
        severity: str
        settings: tuple[Any, ...]


def _overview(rules: Iterable[Described]) -> Iterator[str]:
    for subject in SUBJECTS:
        names = (f"[{rule.name}](#{rule.name})" for rule in rules if rule.subject == subject)
        yield f"- [{subject.capitalize()}](#{subject}): {', '.join(names)}"
    yield ""


def _details(rule: Described, *, excepted: bool) -> Iterator[str]:
    yield f"### {rule.name}"
    yield ""
    yield f"{_text(rule.statement)} *{rule.level.capitalize()}, {rule.severity}*{' °' if excepted else ''}"
    yield ""
    yield f"- Why: {_text(rule.evidence)}"
    yield f"- Fix: {_text(rule.fix)}"
    for setting in rule.settings:
        default = "unset" if setting.default is None else f"`{json.dumps(setting.default)}`"
        unit = f", {setting.unit}" if setting.unit else ""
        yield f"- Setting `{setting.name}` ({setting.type}{unit}; default {default}): {_text(setting.why)}"
    yield ""


def _text(text: str) -> str:
    """Plain text as Markdown, with HTML escaped."""
    return text.replace("<", "&lt;").replace("*", "\\*")


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
    print("policy/README.md is out of date: run `make policy-readme`", file=sys.stderr)  # noqa: T201
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
