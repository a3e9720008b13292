"""Checks of what the servers say, with --answers: one question alone, under load and again, a needle, a tool call."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from facts.texts import plural
from fleet.verify import judgement, questions
from fleet.verify.ask_answers import passage_tokens
from fleet.verify.checks_service import nobody
from fleet.verify.facts import Facts, Told
from fleet.verify.findings import Check, difference, format_where, judged, not_checked
from fleet.verify.judgement import Answer, answer_of, unsound

if TYPE_CHECKING:
    from facts.finding import Finding
    from settings.stack import Settings

_MARKS = ("<tool_call>", "<function=", "[TOOL_CALLS]", "<|python_tag|>")
"""Of tool calls that no parser took out of the text."""


def answers(facts: Facts, settings: Settings) -> Check:
    """Every engine gives the same answer alone, under load and again, but for near ties."""
    title = "Same answer alone, under load and again"
    if why := _why_untold(facts, settings):
        return not_checked("answers", title, why)
    read = [(told, answer_of(told.reply.body) if told.reply.ok else None) for told in facts.told]
    usual = _usual(read)
    differences: list[Finding] = []
    flips = 0
    for told, answer in read:
        if told.reply.late:
            continue
        if answer is None:
            found = "no completion with log probabilities" if told.reply.ok else told.reply.summary
            differences.append(difference(told.where, told.name, "an answer", found))
        elif why := unsound(answer.text, answer.tokens):
            differences.append(difference(told.where, told.name, "a sound answer", f"{why}: {_start(answer)}"))
        elif usual is not None and (why := judgement.difference(answer, usual)):
            wanted = f"the usual answer: {_start(usual)}"
            differences.append(difference(told.where, told.name, wanted, f"{why}: {_start(answer)}"))
        else:
            flips += usual is not None and answer.tokens != usual.tokens
    late = [told for told in facts.told if told.reply.late]
    if late and not differences:
        why = f"{len(late)} of {plural(len(facts.told), 'answer')} late; raise --timeout, or ask at less load"
        return not_checked("answers", title, why)
    engines = len({(told.where, told.rank) for told in facts.told})
    held = f"{plural(len(facts.told), 'answer')} of {plural(engines, 'engine')} on {format_where({told.where for told in facts.told})}"
    held += " agree" + (f"; {flips} took the other of two almost equally likely tokens" if flips else "")
    failed = "an engine answers wrongly: take its pod out and look at its GPU, image and cache settings"
    return judged("answers", title, differences, held=held, failed=failed)


def needle(facts: Facts, settings: Settings) -> Check:
    """Every sound answer names what the passage says once."""
    title = "Needle in a long prompt"
    if why := _why_untold(facts, settings):
        return not_checked("needle", title, why)
    read = [(told, answer_of(told.reply.body)) for told in facts.told if told.reply.ok]
    given = [(told, answer) for told, answer in read if answer is not None]
    if not given:
        return not_checked("needle", title, "no answer came")
    differences = [
        difference(told.where, told.name, questions.NEEDLE, _start(answer))
        for told, answer in given
        if questions.NEEDLE not in answer.text
    ]
    sizes = [tokens for told, _ in given if (tokens := _prompt_tokens(told.reply.body))]
    held = f"found in {len(given)} of {len(given)} answers" + (f", in {max(sizes):,} tokens" if sizes else "")
    failed = "engines do not read the whole prompt: check attention backend, cache type and rope settings"
    return judged("needle", title, differences, held=held, failed=failed)


def tool_call(facts: Facts, settings: Settings) -> Check | None:
    """A tool call arrives as one, with arguments that are its schema's."""
    title, parser = "Tool call", settings.serving.engine.tool_call_parser
    if parser is None:
        return None
    reply = facts.tool
    if reply is None or reply.late:
        why = nobody(facts) or "no question was sent" if reply is None else reply.summary
        return not_checked("tool-call", title, why)
    if not reply.ok:
        wrong = [difference(facts.chat_through, "tool call", "HTTP 200", reply.summary)]
        return judged("tool-call", title, wrong, held="", failed="a request with a tool is refused")
    choice = _choice(reply.body)
    message = choice.get("message") or {}
    found = _wrong_call(message)
    content = message.get("content") or ""
    if found and choice.get("finish_reason") == "length" and not any(mark in content for mark in _MARKS):
        return not_checked("tool-call", title, f"no call in {questions.TOOL_TOKENS} tokens")
    wanted = f'{questions.TOOL}({{"city": "{questions.PLACE}"}}) in tool_calls'
    return judged(
        "tool-call",
        title,
        [difference(facts.chat_through, "tool call", wanted, found)] if found else [],
        held=f"{parser}: {questions.TOOL} was called with a city",
        failed=f"--tool-call-parser={parser} is declared, but a call does not arrive as one",
    )


def _why_untold(facts: Facts, settings: Settings) -> str:
    if facts.told:
        return ""
    if passage_tokens(settings) is None:
        return "no passage fits the context"
    return nobody(facts) or "no question was sent"


def _usual(read: Sequence[tuple[Told, Answer | None]]) -> Answer | None:
    """The most frequent sound answer, preferably of those without load."""
    given = [(told.moment, answer) for told, answer in read if answer and not unsound(answer.text, answer.tokens)]
    alone = [answer for moment, answer in given if moment == "alone"] or [answer for _, answer in given]
    counts = Counter(answer.tokens for answer in alone)
    return max(alone, key=lambda answer: counts[answer.tokens], default=None)


def _start(answer: Answer) -> str:
    text = " ".join(answer.text.split())
    return json.dumps(text[:40] + ("…" if len(text) > 40 else ""), ensure_ascii=False)


def _prompt_tokens(body: Any) -> int:
    usage = body.get("usage") if isinstance(body, Mapping) else None
    return int(usage.get("prompt_tokens") or 0) if isinstance(usage, Mapping) else 0


def _choice(body: Any) -> Mapping[str, Any]:
    choices = body.get("choices") if isinstance(body, Mapping) else None
    first = choices[0] if isinstance(choices, list) and choices else None
    return first if isinstance(first, Mapping) else {}


def _wrong_call(message: Mapping[str, Any]) -> str:
    """What is wrong with a message that should be a call of the tool; empty if nothing is."""
    content = str(message.get("content") or "")
    if mark := next((mark for mark in _MARKS if mark in content), None):
        return f"{mark} in `content`"
    try:
        function = message["tool_calls"][0]["function"]
        name, arguments = function["name"], json.loads(function["arguments"])
    except (KeyError, IndexError, TypeError):
        return "no tool call"
    except ValueError:
        return "arguments that are not JSON"
    if name != questions.TOOL:
        return f"a call of {name}"
    city = arguments.get("city") if isinstance(arguments, Mapping) else None
    return "" if isinstance(city, str) and city else f"arguments without a city: {json.dumps(arguments)[:80]}"
