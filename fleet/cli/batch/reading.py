"""How a file of documents is read and counted: options that plan and run share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from facts.user_error import UserError
from fleet.cli.exits import CommandError

if TYPE_CHECKING:
    from fleet.batch.planning import Machines, OfStack
    from fleet.batch.requests import Form, Request
    from fleet.batch.scan import Line, Scan
    from fleet.batch.tokens import Counter
    from settings.stack import Settings

_DEFAULT_ID: Final = "id"
_SAMPLE: Final = 4_000
"""Assumed: some ten seconds for pages of text on a core, and an interval of 1.6 % each way for lengths that vary by half."""
_LEAST_SAMPLE: Final = 100
"""Assumed: fewer lengths have no normally distributed mean."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """How a file is read and counted."""

    template: Annotated[
        str | None,
        typer.Option(
            metavar="TEXT",
            help="For a plain JSONL: the prompt, with {KEY} for a key of each line. Default: batch.template of the stack.",
        ),
    ] = None
    id: Annotated[
        str | None, typer.Option("--id", metavar="KEY", help="With --template: the key of a line's id. Default: id.")
    ] = None
    output_tokens: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="Mean answer. Default: the limits of the lines, as the upper end."),
    ] = None
    tokenizer: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", exists=True, dir_okay=False, help="The model's tokenizer.json. Default: downloaded, pinned."
        ),
    ] = None
    sample: Annotated[
        int,
        typer.Option(metavar="N", min=_LEAST_SAMPLE, help="Of a larger file, count so many prompts, drawn at random."),
    ] = _SAMPLE
    seed: Annotated[int, typer.Option(metavar="N", min=0, help="Of the sample.")] = 0

    def form(self, settings: Settings | None) -> tuple[Form, str]:
        """What reads a line, and the key of its id. `settings`: of the stack that processes it. Raises UserError."""
        from fleet.batch.requests import CHAT, COMPLETIONS, Terms, openai_request, template_form

        section = None if settings is None or not settings.batch.enabled else settings.batch
        template = self.template if section is None else self.template or section.template
        if template is None and self.id is not None:
            raise CommandError("--id requires --template: lines in OpenAI's format have custom_id")
        terms = Terms()
        if settings is not None and section is not None:
            serving = settings.serving
            terms = Terms(
                url=COMPLETIONS if section.endpoint == "completions" else CHAT,
                models=(serving.served_model_name, *(adapter.name for adapter in serving.model.adapters)),
                has_tool_parser=serving.engine.tool_call_parser is not None,
                defaults=section.defaults.body(),
            )
        if template is None:
            return partial(openai_request, terms=terms), "custom_id"
        # The stack's id is of the stack's template.
        of_stack = section.id if section is not None and self.template is None else None
        id_key = self.id or of_stack or _DEFAULT_ID
        return template_form(template, id_key, terms), id_key

    def scan(
        self,
        path: Path,
        form: Form,
        id_key: str,
        fleets: Machines | OfStack,
        seen: Callable[[Line, Request], None] = lambda _line, _request: None,
    ) -> tuple[Scan, Counter | None]:
        """What the file holds, and what counted its tokens. None: the tokenizer is missing, and lines are bad. Raises UserError."""
        from fleet.batch.scan import scan
        from fleet.batch.tokenizer_file import tokenizer_file
        from fleet.batch.tokens import Counter, NoCounter

        try:
            counter = Counter(*tokenizer_file(self.tokenizer, fleets.model))
        except UserError:
            # Whoever downloads one shall not learn afterwards that the lines are bad.
            found = scan(path, form, NoCounter(), fleets.context, id_key=id_key, sample=self.sample)
            if not found.bad:
                raise
            return found, None
        found = scan(path, form, counter, fleets.context, id_key=id_key, sample=self.sample, seed=self.seed, seen=seen)
        return found, counter
