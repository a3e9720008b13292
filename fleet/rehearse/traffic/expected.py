"""What arithmetic says about streams that are cut, beside what a rehearsal measures."""

from __future__ import annotations

from collections.abc import Sequence


def share_cut(request_seconds: float | Sequence[float], left_seconds: float) -> float:
    """Share of a server's requests in flight that are cut when everything ends `left_seconds` from now.

    Under a steady load the requests in flight are of every age alike, so a request that takes S seconds is in flight for S
    and has more than N seconds to go for S - N of them: the share is the mean of max(0, S - N) over the mean of S. With one
    length T for all of them it is (T - N) / T. `request_seconds` is that one length or a sample of lengths, all above zero.
    """
    lengths = [request_seconds] if isinstance(request_seconds, (int, float)) else list(request_seconds)
    if not lengths or min(lengths) <= 0:
        raise ValueError("request_seconds is a length above zero, or some of them")
    left = max(0.0, left_seconds)
    return sum(max(0.0, one - left) for one in lengths) / sum(lengths)
