"""The options of a question as given. Imports little: `fleet --help` reads it."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Final, Literal

import typer

Capacity = Literal["on-demand", "spot", "cud-1y", "cud-3y", "flex-start", "calendar", "reservation", "ladder"]
SizedAs = Literal["fleet", "engine"]
"""As the article's fleet, or as one engine alone (docs/planner-model.md)."""
StartsFrom = Literal["nothing", "cluster", "weights"]
"""What exists already: nothing; network and cluster; or the weights volume as well."""
ANY_MACHINE: Final = "any"
DEFAULT_CAPACITY: Final = "spot"
# Assumed: share of full load that stays free, for a lost node and uneven hours.
DEFAULT_HEADROOM: Final = 0.15
# Assumed: share of time in which all required nodes are up, given a loss rate.
DEFAULT_CONFIDENCE: Final = 0.95

# Options of several commands.
Deadline = Annotated[
    str | None, typer.Option(metavar="8h", help="Time to finish the batch, start-up included; also 90m, 1.5d.")
]
Model = Annotated[
    str | None,
    typer.Option(metavar="ID", help="Model of the catalogue, or your own model's config.json. Default: the profile's."),
]
Headroom = Annotated[float, typer.Option(min=0.0, max=0.95, help="Share of full load to leave free.")]
LossPerNodeDay = Annotated[
    float | None, typer.Option(metavar="N", min=0.0, help="Spot preemptions per node and day; sizes the spares.")
]
Start = Annotated[StartsFrom, typer.Option(help="What exists already.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What `fleet plan` is asked; None if omitted."""

    tokens_per_second: Annotated[
        float | None, typer.Option(metavar="N", help="Goal: input and output tokens a second.")
    ] = None
    users: Annotated[
        float | None, typer.Option(metavar="N", help="Goal: concurrent users, one request each at a time.")
    ] = None
    think_seconds: Annotated[
        float | None,
        typer.Option(
            metavar="S",
            min=0.0,
            help="With --users: from a response to the next request. Default: 0, as the article's clients.",
        ),
    ] = None
    requests_per_second: Annotated[float | None, typer.Option(metavar="N", help="Goal: open-loop arrival rate.")] = None
    usd_per_hour: Annotated[
        float | None, typer.Option(metavar="N", help="Goal: the largest fleet within this budget.")
    ] = None
    documents: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="Goal: a batch, with --tokens-per-document and --output-tokens."),
    ] = None
    tokens_per_document: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Mean length, prompt included.")
    ] = None
    longest_document: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Longest document. Default: the mean.")
    ] = None
    output_tokens: Annotated[int | None, typer.Option(metavar="N", min=1, help="Output tokens per document.")] = None
    longest_output: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Longest output. Default: --output-tokens.")
    ] = None
    deadline: Deadline = None
    isl: Annotated[int | None, typer.Option(metavar="N", min=1, help="Input tokens of a request.")] = None
    osl: Annotated[int | None, typer.Option(metavar="N", min=1, help="Output tokens of a request.")] = None
    workload: Annotated[str | None, typer.Option(metavar="NAME", help="Named lengths. Default: article.")] = None
    ttft_p99_ms: Annotated[float | None, typer.Option(metavar="MS", help="Limit on the p99 time to first token.")] = (
        None
    )
    tpot_ms: Annotated[float | None, typer.Option(metavar="MS", help="Limit on the mean time per output token.")] = None
    profile: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Engine profile. Default: record, serve-chat with --write, or by the lengths."
        ),
    ] = None
    machine: Annotated[
        str | None,
        typer.Option(
            metavar=f"TYPE|{ANY_MACHINE}",
            help="Machine type; any compares them by price. Default: any (with --write its first), or a4-highgpu-8g where one is needed.",
        ),
    ] = None
    model: Model = None
    capacity: Annotated[
        Capacity | None, typer.Option(help="Purchase option. Default: spot; all with --machine any.")
    ] = None
    gateway: Annotated[bool, typer.Option(help="Route through the Inference Gateway.")] = False
    routers: Annotated[
        bool,
        typer.Option("--routers", help="Routers that choose a server for each request (endpoint.kind: leastRequest)."),
    ] = False
    headroom: Headroom = DEFAULT_HEADROOM
    sized_as: Annotated[
        SizedAs,
        typer.Option(
            help="Size for the losses of the article's fleet, its wait and host time; or for one engine's speed."
        ),
    ] = "fleet"
    spares: Annotated[int | None, typer.Option(metavar="N", min=0, help="Spare machines.")] = None
    loss_per_node_day: LossPerNodeDay = None
    confidence: Annotated[float, typer.Option(min=0.5, max=0.9999, help="Share of time with enough nodes.")] = (
        DEFAULT_CONFIDENCE
    )
    starts_from: Start = "nothing"
    compile_cache: Annotated[
        bool, typer.Option("--compile-cache", help="Keep compiled kernels, so later nodes start faster.")
    ] = False
    hours_per_week: Annotated[
        float | None, typer.Option(metavar="N", min=0.1, max=168.0, help="Hours that the fleet runs.")
    ] = None
    region: Annotated[
        str | None,
        typer.Option(metavar="REGION", help="Region of the list prices. Default: that of --zone, or europe-west4."),
    ] = None
    usd_per_node_hour: Annotated[
        float | None, typer.Option(metavar="N", min=0.01, help="Your price of a node-hour.")
    ] = None

    @property
    def load_share(self) -> float:
        """Share of full load that the goal may use."""
        return 1 - self.headroom

    @property
    def model_file(self) -> Path | None:
        """The config.json of a model of one's own."""
        return Path(self.model) if self.model is not None and self.model.endswith(".json") else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """What a written stack file names besides the plan."""

    reservation: Annotated[
        str | None, typer.Option(metavar="NAME", help="In the stack file: the reservation's name.")
    ] = None
    project: Annotated[str | None, typer.Option(metavar="ID", help="In the stack file: Google Cloud project.")] = None
    zone: Annotated[
        str | None,
        typer.Option(
            metavar="ZONE",
            help="In the stack file: zone with the machine. Default: europe-west4-b, or one with a price.",
        ),
    ] = None
    repository: Annotated[
        str | None,
        typer.Option(metavar="OWNER/NAME", help="In the stack file: the Hugging Face repository of your own --model."),
    ] = None
    revision: Annotated[
        str | None, typer.Option(metavar="COMMIT", help="In the stack file: the commit of --model.")
    ] = None
    token_secret: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="In the stack file: Secret Manager secret with a Hugging Face token."),
    ] = None

    def given(self) -> tuple[str, ...]:
        """Options that are not omitted."""
        return tuple(
            f"--{field.name.replace('_', '-')}" for field in fields(self) if getattr(self, field.name) is not None
        )
