"""Markdown from values nobody vouches for, and the limit of a comment."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from fleet.preview.policy import Violation
from fleet.preview.report.model import Policies
from fleet.preview.report.several_stacks import Refusal
from fleet.report.markdown import LIMIT, Part, cell, code, escape, fenced, fold, joined, prose, table
from tests.fleet.preview.sample_changes import change, compared_report, edited, sample_changes
from tests.fleet.preview.sample_report import sample_report
from tests.support.formats import markdown_of
from tests.support.rows import each_row


@each_row(
    ("text", "shown"),
    [
        ("<b>x</b> & y", "&lt;b&gt;x&lt;/b&gt; &amp; y"),
        ("[a](http://b) ![c](d)", "\\[a\\](http:\u200b//b) !\\[c\\](d)"),
        ("*a* _b_ ~~c~~ `d` |", r"\*a\* \_b\_ \~\~c\~\~ \`d\` \|"),
        ("# not a heading", r"\# not a heading"),
        ("- no list", r"\- no list"),
        ("1. no list", r"1\. no list"),
        ("0.18.1 accepts it", "0.18.1 accepts it"),
        ("two\nlines\n\n<!-- x", "two lines &lt;!-- x"),
    ],
)
def test_text_is_shown_as_it_is(text: str, shown: str) -> None:
    assert escape(text) == shown


@pytest.mark.parametrize(
    "text", ["@octocat", "https://x.example", "HTTP://x.example", "www.x.example", "a/b#1", "#1", "GH-1"]
)
def test_nobody_is_mentioned_and_nothing_is_linked(text: str) -> None:
    for shown in (escape(f"see {text}"), fold(f"see {text}", [])[1]):
        assert text not in shown
        assert text in shown.replace("\u200b", "")


def test_code_stays_code_whatever_is_in_it() -> None:
    assert code("a") == "`a`"
    assert code("a`b``c") == "``` a`b``c ```"
    assert code("two\nlines") == "`two lines`"
    assert code(True) == "`true`"
    assert code(None) == "`not set`"


def test_own_sentences_keep_their_code_and_nothing_else() -> None:
    assert prose("run `a <b>` *now*") == r"run `a <b>` \*now\*"
    assert prose("an odd ` one") == r"an odd \` one"


def test_a_cell_is_cut_and_cannot_end_its_row() -> None:
    assert table(("a", "b"), [(cell("x | y"), code("p|q"))])[-1] == r"| x \| y | `p\|q` |"
    assert len(cell("x" * 1000)) == 400


def test_a_fence_cannot_be_closed_from_inside() -> None:
    lines = fenced(["a", "```", "````", "b"])
    assert lines[0] == "`````diff"
    assert lines[-1] == "`````"


def test_a_summary_is_text() -> None:
    assert fold("</summary><b>", ["x"])[1] == "<details><summary>&lt;/summary&gt;&lt;b&gt;</summary>"


def test_sections_are_left_out_whole_the_last_details_first_and_it_is_said() -> None:
    sections = [
        Part(name="verdict", text="verdict"),
        Part(name="tree of a", text="a" * 400, rank=2),
        Part(name="numbers", text="n" * 400, rank=1),
        Part(name="tree of b", text="b" * 400, rank=2),
    ]
    text = joined(sections, elsewhere="See there.", limit=1100)
    assert "b" * 10 not in text
    assert "a" * 400 in text
    assert text.endswith(": tree of b. See there.\n")
    shorter = joined(sections, elsewhere="See there.", limit=700)
    assert "n" * 400 in shorter
    assert "tree of a, tree of b. See there." in shorter
    assert joined(sections, elsewhere="See there.") == "\n\n".join(one.text for one in sections) + "\n"


def test_a_verdict_that_does_not_fit_is_shortened_at_a_line_and_it_is_said() -> None:
    text = joined([Part(name="verdict", text="row\n" * 200), Part(name="why", text="y")], elsewhere="There.", limit=400)
    assert len(text) <= 400
    assert text.startswith("row\nrow\n")
    assert text.endswith("row\n\n**Omitted** because of GitHub's size limit: the rest of verdict, why. There.\n")


def test_ten_refused_and_two_hundred_healthy_stacks_are_all_in_the_table() -> None:
    refused = [Refusal(stack=f"broken-{index}", message="a reason\n" * 20_000) for index in range(10)]
    healthy = [sample_report()] * 200
    alone, together = markdown_of(*refused), markdown_of(*refused, *healthy)
    for outcomes, text in ((refused, alone), ([*refused, *healthy], together)):
        assert len(text) <= LIMIT
        assert len(re.findall(r"^\| (?:test|broken-\d) \|", text, re.MULTILINE)) == len(outcomes)
        assert text.count("```") % 2 == 0
    assert all(f"#### broken-{index} · cannot be previewed" in alone for index in range(10))


def huge_report(stack_count: int = 1) -> str:
    base = sample_changes()
    top = base.resources[0].urn
    many = tuple(
        change("kubernetes:core/v1:ConfigMap", f"map-{index:05}", top, "replace",
               properties=tuple(edited(f"data.k{index}-{key}", "x" * 500, "y" * 500) for key in range(10)))
        for index in range(200)
    )  # fmt: skip
    violations = tuple(
        Violation(policy=f"rule-{index}", level="mandatory", urn=f"urn:x::r{index}", message="w" * 3000)
        for index in range(400)
    )
    report = compared_report(
        replace(base, resources=(*base.resources, *many), effects=("H" * 200,) * 50),
        Policies(state="judged", violations=violations),
    )
    refusal = Refusal(stack="broken", message="refused\n" * 20_000)
    return markdown_of(*[report] * stack_count, *([refusal] if stack_count > 1 else []))


@pytest.mark.parametrize("stacks", [1, 5])
def test_a_huge_change_stays_below_the_limit_and_keeps_its_verdict(stacks: int) -> None:
    text = huge_report(stacks)
    assert len(text) <= LIMIT
    assert "397 more" in text
    assert re.search(r"\*\*Omitted\*\*.*(?:Changes|and \d+ more)", text)
    assert "--details" in text
    assert text.count("<details>") == text.count("</details>")
    assert text.count("```") % 2 == 0


def test_no_value_of_a_fork_writes_markup_into_the_comment() -> None:
    evil = "</details><script>alert(1)</script>`|\n\n# owned @octocat [x](http://evil)"
    urn = sample_changes().resources[0].urn
    changes = sample_changes(
        effects=(evil, evil),
        remarks=(evil,),
        against=evil,
        outputs=(edited(evil, evil, evil + "2"),),
        resources=(*sample_changes().resources, change("kubernetes:core/v1:ConfigMap", evil, urn, "delete")),
    )
    violation = Violation(policy=evil, level="mandatory", urn="urn:x::" + evil, message=evil, description=evil)
    report = compared_report(changes, Policies(state="judged", violations=(violation,)))
    for text in (markdown_of(report), markdown_of(report, Refusal(stack=evil, message=evil))):
        outside = re.sub(r"^(`{3,})\w*\n.*?^\1$", "", text, flags=re.MULTILINE | re.DOTALL)
        outside = re.sub(r"(?<!`)(`+)(?!`).*?(?<!`)\1(?!`)", "", outside)
        assert "<script" not in outside
        assert "# owned" not in re.sub(r"^#+ .*$", "", outside, flags=re.MULTILINE) or "\n# owned" not in outside
        assert "@octocat" not in outside
        assert "[x](" not in outside
        assert text.count("<details>") == len(re.findall(r"^</details>$", text, re.MULTILINE))
