"""docs/verify.md says what the command does."""

from __future__ import annotations

import json
import re

from fleet.report.as_json import json_text
from fleet.verify import ask, judgement, questions
from fleet.verify.cluster import _node, _pod
from fleet.verify.facts import Cluster, Facts, Reply, Server
from fleet.verify.questions import BURST_TOKENS
from fleet.verify.report import outline
from fleet.verify.verification import judge
from settings.sections.endpoint import Endpoint
from tests.fleet.verify.made_cluster import node_of, pod_of, programmed_gateway
from tests.fleet.verify.stacks import ROOT, good, settings_of

GUIDE = (ROOT / "docs" / "verify.md").read_text(encoding="utf-8")


def test_every_check_is_described_and_no_other_in_the_order_of_the_report() -> None:
    settings = settings_of("gateway", apiKeySecret="vllm-api-key")
    named = settings.gateway.model_copy(update={"hostname": "llm.acme.dev"})
    settings = settings.model_copy(update={"gateway": named})
    seen = Cluster(
        pods=(_pod(pod_of(settings, 0)),),
        nodes=(_node(node_of(settings, 0)),),
        gateway={"Gateway inference-gateway": programmed_gateway()},
    )
    server = Server(name="endpoint", health=Reply(status=200), models_without_key=Reply(status=401))
    ids = [check[0].id for check in judge(Facts(endpoint="", door=server, cluster=seen), settings)]
    table = GUIDE[GUIDE.index("| check | passes if |") :].partition("\n\n")[0]
    described = re.findall(r"^\| `([a-z-]+)` \|", table, re.MULTILINE)
    assert described == ids


def test_every_check_of_routers_is_described_in_the_order_of_the_report() -> None:
    plain = settings_of("dev", apiKeySecret="vllm-api-key")
    routed = plain.model_copy(update={"endpoint": Endpoint(kind="leastRequest")})
    facts = Facts(endpoint="", door=None)
    without = [check[0].id for check in judge(facts, plain)]
    ids = [check[0].id for check in judge(facts, routed) if check[0].id not in without]
    table = GUIDE[GUIDE.index("## Routers") :].partition("\n\n## ")[0]
    assert re.findall(r"^\| `([a-z-]+)` \|", table, re.MULTILINE) == ids


def test_every_key_of_the_document_is_described() -> None:
    document = json.loads(json_text(outline(good("cud"))))
    rows = GUIDE[GUIDE.index("| key | contents |") :].partition("\n\n")[0]
    described = set(re.findall(r"`(\w+)`", rows))
    assert {*document, *(key for finding in document["findings"] for key in finding)} <= described


def test_the_figures_of_the_guide_are_those_of_the_code() -> None:
    assert f"{questions.STREAM_TOKENS} tokens, or {ask.CHAT_SECONDS:.0f} seconds" in GUIDE
    assert f"at most {judgement.NEAR_TIE:g} (natural logarithm)" in GUIDE
    assert f"four requests of {BURST_TOKENS} tokens" in GUIDE
    assert questions.REQUESTS_PER_RANK == 4
    phases = (
        f"{ask.GREETING_SECONDS:.0f} s for the greeting, {ask.BURST_SECONDS:.0f} for the burst, {2 * ask.TWICE_SECONDS:.0f} for the "
        f"long prompt twice, {ask.CHAT_SECONDS:.0f} for the chat, and with `--answers` {2 * ask.ANSWER_SECONDS:.0f} for the question"
    )
    assert phases in GUIDE
