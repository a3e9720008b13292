"""The picture of a stack, drawn: boxes in three columns on a wide page, below each other on a phone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import ceil
from typing import Final

from facts.texts import plural
from fleet.preview.report.stack_picture import MOST_NODES, Nodes, Part, StackPicture
from fleet.report.svg import LINE_PX, WIDTH, Drawing, Format, Point, lines_of

_MARGIN_PX: Final = 14.0
"""Between the cluster's frame and what it holds."""
_PAD_PX: Final = 12.0
_GAP_PX: Final = 14.0
_ARROW_PX: Final = 36.0
_SERVERS_PX: Final = 424.0
"""Width of the servers: room for six nodes of eight GPUs in a row."""
_GPU_PX: Final = 10.0
_NODE_PAD_PX: Final = 5.0
_GPUS_ACROSS: Final = 4
_BASE_PX: Final = 12.0
"""From a line's top to its base line."""
_ASKERS: Final = ("clients", "benchmark")
_SIDE: Final = ("scaler", "watch", "guard", "budget")


@dataclass(slots=True)
class _Box:
    """A part with its place."""

    part: Part
    x: float
    y: float
    width: float
    height: float = field(init=False)

    def __post_init__(self) -> None:
        room = self.width - 2 * _PAD_PX
        texts = sum(len(lines) for lines, _ in _lines(self.part, room)) * LINE_PX
        self.height = 2 * _PAD_PX + texts + sum(_nodes_height(node, room) for node in self.part.nodes)

    @property
    def bottom(self) -> float:
        return self.y + self.height

    @property
    def middle(self) -> float:
        return self.y + self.height / 2

    @property
    def center(self) -> float:
        return self.x + self.width / 2


@dataclass(slots=True)
class _Layout:
    """Boxes by part, arrows from point to point, and the edges of the frame."""

    boxes: dict[str, _Box] = field(default_factory=dict)
    arrows: list[tuple[Point, Point]] = field(default_factory=list)
    frame_top: float = 0.0
    frame_bottom: float = 0.0

    def place(self, part: Part, x: float, y: float, width: float) -> _Box:
        box = self.boxes[part.id] = _Box(part, x, y, width)
        return box


def stack_drawing(picture: StackPicture, format_: Format) -> Drawing:
    """The picture in that format."""
    width = WIDTH[format_]
    title = lines_of(picture.title, width, bold=True)
    layout = (_wide if format_ == "wide" else _narrow)(picture, LINE_PX * len(title) + _GAP_PX / 2)
    about = _lines(picture.cluster, width - 2 * _MARGIN_PX)
    bottom = layout.frame_bottom + _GAP_PX + sum(len(lines) for lines, _ in about) * LINE_PX + _MARGIN_PX / 2
    id_ = f"stack-{picture.stack}"
    result = Drawing(id_, format_, bottom + 1, title=picture.title, description=picture.description)
    _write(result, 0, 0, [(title, "panel-title")])
    style = "frame" if picture.owns_cluster else "frame foreign"
    result.rectangle(0.5, layout.frame_top, width - 1, bottom - layout.frame_top, style)
    for start, end in layout.arrows:
        _arrow(result, start, end)
    for box in layout.boxes.values():
        _draw(result, box)
    _write(result, _MARGIN_PX, layout.frame_bottom + _GAP_PX, about)
    return result


def _wide(picture: StackPicture, top: float) -> _Layout:
    layout = _Layout(frame_top=top)
    parts = picture.parts
    left = WIDTH["wide"] - 2 * _MARGIN_PX - _SERVERS_PX - _ARROW_PX
    half = (left - _ARROW_PX) / 2
    right_x = _MARGIN_PX + left + _ARROW_PX
    inside = [parts[id_] for id_ in _ASKERS if id_ in parts and not _is_outside(picture, id_)]
    door_x, door_width = (_MARGIN_PX + half + _ARROW_PX, half) if inside else (_MARGIN_PX, left)
    if picture.asked_from_outside:
        layout.frame_top = layout.place(parts["clients"], door_x, top, door_width).bottom + _ARROW_PX / 2
    first = y = layout.frame_top + _MARGIN_PX
    askers = []
    for part in inside:
        askers.append(layout.place(part, _MARGIN_PX, y, half))
        y = askers[-1].bottom + _GAP_PX
    if "door" in parts:
        _place_door(layout, askers, layout.place(parts["door"], door_x, first, door_width), right_x, picture)
    if "servers" in parts:
        bottom = layout.place(parts["servers"], right_x, first, _SERVERS_PX).bottom
        if "weights" in parts:
            weights = layout.place(parts["weights"], right_x, bottom + _ARROW_PX, _SERVERS_PX)
            layout.arrows.append(((weights.center, weights.y), (weights.center, bottom)))
    side = [parts[id_] for id_ in _SIDE if id_ in parts]
    width = (left - _GAP_PX) / 2 if len(side) > 1 else left
    y = max((box.bottom for box in layout.boxes.values() if box.x < right_x), default=first) + _ARROW_PX
    for start in range(0, len(side), 2):
        pair = [
            layout.place(part, _MARGIN_PX + place * (width + _GAP_PX), y, width)
            for place, part in enumerate(side[start : start + 2])
        ]
        _stretch(pair)
        y = pair[0].bottom + _GAP_PX
    layout.frame_bottom = max((box.bottom for box in layout.boxes.values()), default=first)
    return layout


def _place_door(layout: _Layout, askers: Sequence[_Box], door: _Box, servers_x: float, picture: StackPicture) -> None:
    """Beside those who ask, as high as all of them, with the arrows to and from it."""
    door.height = max(door.bottom, *(box.bottom for box in askers)) - door.y if askers else door.height
    if len(askers) == 1:
        askers[0].height = door.height
    layout.arrows += [((box.x + box.width, box.middle), (door.x, box.middle)) for box in askers]
    if picture.asked_from_outside:
        layout.arrows.append(((door.center, layout.boxes["clients"].bottom), (door.center, door.y)))
    if "servers" in picture.parts:
        layout.arrows.append(((door.x + door.width, door.middle), (servers_x, door.middle)))


def _narrow(picture: StackPicture, top: float) -> _Layout:
    layout = _Layout(frame_top=top)
    parts = picture.parts
    width = WIDTH["narrow"] - 2 * _MARGIN_PX
    y = top + _MARGIN_PX
    askers = [parts[id_] for id_ in _ASKERS if id_ in parts]
    each = (width - _GAP_PX) / 2 if len(askers) > 1 else width
    for place, part in enumerate(askers):
        x = _MARGIN_PX + place * (each + _GAP_PX)
        if _is_outside(picture, part.id):
            layout.frame_top = layout.place(part, x, top, each).bottom + _ARROW_PX / 2
            y = layout.frame_top + _MARGIN_PX
        else:
            layout.place(part, x, y, each)
    above = list(layout.boxes.values())
    if not picture.asked_from_outside:
        _stretch(above)
    y = max((box.bottom + _ARROW_PX * 0.8 for box in above if not _is_outside(picture, box.part.id)), default=y)
    for id_, part in parts.items():
        if id_ in _ASKERS:
            continue
        box = layout.place(part, _MARGIN_PX, y, width)
        if id_ in ("door", "servers"):
            layout.arrows += [((other.center, other.bottom), (other.center, box.y)) for other in above]
        elif id_ == "weights":
            layout.arrows += [((other.center, box.y), (other.center, other.bottom)) for other in above]
        above = [box]
        y = box.bottom + (_ARROW_PX * 0.8 if id_ == "door" or (id_ == "servers" and "weights" in parts) else _GAP_PX)
    layout.frame_bottom = max((box.bottom for box in layout.boxes.values()), default=y)
    return layout


def _stretch(row: Sequence[_Box]) -> None:
    """Give boxes beside each other the height of the highest."""
    height = max(box.height for box in row)
    for box in row:
        box.height = height


def _is_outside(picture: StackPicture, id_: str) -> bool:
    return picture.asked_from_outside and id_ == "clients"


def _lines(part: Part, room: float) -> list[tuple[tuple[str, ...], str]]:
    """The part's texts, broken into lines, each with its style."""
    title = lines_of(part.title, room, bold=True)
    return [
        (title, "panel-title"),
        *((lines_of(line, room), "") for line in part.lines if line),
        *([(lines_of(part.price, room), "price")] if part.price else []),
    ]


def _write(drawing: Drawing, x: float, y: float, texts: Sequence[tuple[Sequence[str], str]]) -> float:
    """Write lines from the top y. Returns where they end."""
    for lines, style in texts:
        for line in lines:
            drawing.text(x, y + _BASE_PX, line, style)
            y += LINE_PX
    return y


def _draw(drawing: Drawing, box: _Box) -> None:
    drawing.rectangle(box.x, box.y, box.width, box.height, "card")
    room = box.width - 2 * _PAD_PX
    y = _write(drawing, box.x + _PAD_PX, box.y + _PAD_PX, _lines(box.part, room))
    for nodes in box.part.nodes:
        _draw_nodes(drawing, nodes, box.x + _PAD_PX, y + _GAP_PX / 2, room)
        y += _nodes_height(nodes, room)


def _node_size(nodes: Nodes) -> tuple[float, float]:
    across = min(nodes.gpus, _GPUS_ACROSS)
    down = ceil(nodes.gpus / _GPUS_ACROSS)
    return across * (_GPU_PX + 2) - 2 + 2 * _NODE_PAD_PX, down * (_GPU_PX + 2) - 2 + 2 * _NODE_PAD_PX


def _per_row(nodes: Nodes, room: float) -> int:
    return max(1, int((room + 8) // (_node_size(nodes)[0] + 8)))


def _nodes_height(nodes: Nodes, room: float) -> float:
    if not nodes.count:
        return 0.0
    rows = ceil(min(nodes.count, MOST_NODES) / _per_row(nodes, room))
    return _GAP_PX / 2 + rows * (_node_size(nodes)[1] + 8) + (LINE_PX if nodes.count > MOST_NODES else 0)


def _draw_nodes(drawing: Drawing, nodes: Nodes, left: float, top: float, room: float) -> None:
    """One rectangle for each node with a square for each GPU; those above the autoscaler's minimum are hollow."""
    width, height = _node_size(nodes)
    per_row = _per_row(nodes, room)
    drawn = min(nodes.count, MOST_NODES)
    for number in range(drawn):
        x, y = left + number % per_row * (width + 8), top + number // per_row * (height + 8)
        is_extra = number >= nodes.fewest
        words = f"node {number + 1}: {plural(nodes.gpus, 'GPU')}" + (", only under load" if is_extra else "")
        drawing.rectangle(x, y, width, height, "node extra" if is_extra else "node", title=words)
        for gpu in range(nodes.gpus):
            gpu_x = x + _NODE_PAD_PX + gpu % _GPUS_ACROSS * (_GPU_PX + 2)
            gpu_y = y + _NODE_PAD_PX + gpu // _GPUS_ACROSS * (_GPU_PX + 2)
            drawing.rectangle(gpu_x, gpu_y, _GPU_PX, _GPU_PX, "gpu extra" if is_extra else "gpu")
    if nodes.count > drawn:
        y = top + ceil(drawn / per_row) * (height + 8) + _BASE_PX - 4
        drawing.text(left, y, f"and {plural(nodes.count - drawn, 'more node')}", "tick")


def _arrow(drawing: Drawing, start: Point, end: Point) -> None:
    """From point to point, straight across or straight down or up."""
    (x1, y1), (x2, y2) = start, end
    along_x, along_y = (x2 > x1) - (x2 < x1), (y2 > y1) - (y2 < y1)
    base_x, base_y = x2 - 8 * along_x, y2 - 8 * along_y
    drawing.line(x1, y1, base_x, base_y, "flow")
    drawing.area(
        ((x2, y2), (base_x + 4 * along_y, base_y + 4 * along_x), (base_x - 4 * along_y, base_y - 4 * along_x)), "tip"
    )
