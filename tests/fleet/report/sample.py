"""An outline with every element."""

from __future__ import annotations

from facts.finding import Finding
from fleet.report.outline import (
    Box,
    Branch,
    Code,
    Edit,
    Figure,
    Findings,
    Format,
    Items,
    Next,
    Number,
    Outline,
    Prose,
    Section,
    Tiles,
    Tree,
)
from fleet.report.table import Cell, Table, numbers, texts

TOO_DEAR = Finding(
    id="hourly-cost-above-ceiling",
    subject="server",
    found="$545 an hour",
    allowed="at most $420",
    why="12 nodes at `a4-highgpu-8g`",
    write="server.replicas: 9",
)


def drawn(format_: Format) -> str:
    """A drawing without content."""
    return f'<svg class="{format_}"></svg>'


BILL = Table(
    id="bill",
    caption="Bill",
    columns=(*texts("item", "quantity"), *numbers("USD an hour")),
    rows=(
        (Cell("A4 node (a4-highgpu-8g), Spot"), Cell("12 nodes × $34.07"), Cell("2,786,769")),
        (Cell("NAT", note="of the whole region"), Cell("1"), Cell("2,182,737")),
    ),
    foot=(Cell("total"), Cell(""), Cell("4,969,506")),
)
TREE = Branch(
    name="vllm-fleet-spot",
    kind="Stack",
    children=(
        Branch(
            name="qwen35-server",
            kind="Deployment",
            mark="+-",
            facts="replaced",
            reasons=("replaced because of spec.selector",),
            edits=(
                Edit(path="spec.replicas", mark="~", before="12", after="8"),
                Edit(path="data.key", mark="?", remark="a secret, which may change"),
                Edit(path="script", mark="~", lines=(("-", "set -e"), ("+", "set -eu"))),
            ),
        ),
        Branch(name="rules", kind="Rules", mark="~", edits=(Edit(path="x", mark="+", after="1"),), is_folded=True),
    ),
)
SAMPLE = Outline(
    title="vllm-fleet / spot",
    kind="offline preview",
    verdict="blocked by `hourly-cost-above-ceiling`: $545 > $420",
    tone="bad",
    head=(
        Box(body=(Prose("All replicas go down together."), Items(("first", "second")))),
        Tiles((Number(name="USD an hour", now="$545", more="was $411"),)),
    ),
    body=(
        Section(
            title="Policies",
            remark="1 blocking",
            body=(
                Findings(
                    (
                        TOO_DEAR,
                        Finding(id="needs", subject="chat", found="missing", severity="warning", why="w"),
                        Finding(id="needs", subject="code", found="missing", severity="warning", why="w"),
                        Finding(id="alive", subject="server", found="answers", severity="passed"),
                    )
                ),
            ),
        ),
        Section(title="Changes", body=(Tree(TREE),), rank=1),
        Section(title="Cost", body=(BILL,), folding="always", rank=2),
        Section(title="Figures", body=(Figure(drawn=drawn, caption="c"),), id="figs"),
        Section(title="Hashes", remark="12", body=(Prose("hidden words"),), folding="always"),
        Section(title="On a page", body=(Prose("on the page"),), folding="screen"),
        Section(title="Outer", body=(Prose("p"), Section(title="Inner", body=(Code(("a: 1",)),)))),
        Next("pulumi up --stack spot", "when it is approved"),
    ),
    footer=("Nothing here was run on Google Cloud.",),
    elsewhere="See `--format html`.",
    data={"stack": "spot"},
)
