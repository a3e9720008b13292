"""Every limit of the certificate, with where it comes from. docs/certificate.md explains them."""

from __future__ import annotations

from typing import Final

# The clients -------------------------------------------------------------------------------------------------------

CLIENT_CPU_LIMIT: Final = 0.8
"""Mean share of one core beyond which a client counts as saturated. Measured: vLLM 0.18.1's client path takes 30 to 35 us of CPU for a
chunk, so that a core carries about 30,000 chunks a second. Beyond the limit chunks wait for the client's event loop, and the wait is in
every latency. The article's client used 99 %, and gave 242K where 740K was there.
Measured on H200 (own trial over HTTP, 2026-11-22): at 93 % a first token after 2.2 s, where eight clients see 0.22 s at the same rate."""
CLIENT_CPU_PEAK_LIMIT: Final = 0.95
"""Share of one core in any one second. Assumed: a client is one thread, so a second at 95 % is one in which chunks queued."""
LAG_SHARE_OF_ITL: Final = 0.1
"""Event-loop lag (p99) as a share of the median time between chunks: what the client itself may add to a latency. Assumed:
a tenth, below the difference between two servers worth comparing."""
TOGETHER_SHARE: Final = 0.5
"""Median over mean time between chunks below which most arrive together. Assumed: half the gaps are then near 0. The article's, whose
answers stall while prompts are read, have a median of 74.4 ms and a mean of 95.6."""
LAG_FLOOR_MS: Final = 2.0
"""Lag that is always allowed. Source: CPython's selectors.EpollSelector waits whole milliseconds, rounded up;
one more for the tick itself."""
CLIENT_BALANCE: Final = 0.1
"""How far a client's rate per connection may lie from the median client's. Assumed: a tenth, and three standard errors of
its number of requests on top (lengths of requests vary by at most their mean)."""

# The run -----------------------------------------------------------------------------------------------------------

IN_FLIGHT_SHARE: Final = 0.95
"""Requests in flight over the steady window, as a share of those intended. Assumed: the article's throughput changed by 2 %
between 2,000 and 8,000 requests in flight a node, so a twentieth less load changes it far less than repeats vary."""
STEADY_SECONDS: Final = 20.0
"""Shortest steady window. Assumed: twenty readings of every engine, which come once a second."""
STEADY_REQUESTS: Final = 2.0
"""Shortest steady window, in median requests (E2E). Assumed: every connection then serves two requests in it, and the first
wave, in which all prompts arrive at once, is over. The article's 5 requests a connection leave three."""
DRIFT_SHARE: Final = 0.05
"""Drift of output tok/s over the steady window that is always allowed. Measured: 0.1 to 3.3 % in the closed loops of
tests/fleet/bench/made_up/results.py with the article's lengths and 5 to 12 requests a connection, whose server never changes; total
tok/s, in which prompts come in waves, shows 2 to 14 % there."""
DRIFT_MOST: Final = 0.2
"""Drift that fails whatever the noise. Assumed: the mean is then off by a tenth at both ends."""
LEAST_REPEATS: Final = 3
"""Runs of one load. Two give an interval of +-13 standard errors (Student's t, one degree of freedom), three one of +-4.3."""
VARIATION_LIMIT: Final = 0.05
"""Standard deviation over mean of the repeats. Source: the article's two runs of one fleet: 1.2 % on one node, 2.4 % on two
(190,000 and 196,548), 0.8 % on four; the limit is twice the largest of them."""

# The data ----------------------------------------------------------------------------------------------------------

REPEATED_SHARE: Final = 0.005
"""Random prompts sent before, as a share of all, beyond those that repeat by chance. Assumed: reading them from a cache changes a rate by
less than repeats vary."""
REPEATED_OF_A_CLIENT: Final = 0.25
"""The same as a share of one client's prompts in a run, where that is less: two clients with one seed repeat all of them, however many
other clients there are. Assumed: a quarter, beyond chance."""
REPEATED_DEVIATIONS: Final = 5.0
"""Standard deviations that chance may take above its mean. Assumed: one sound measurement in three million is beyond it."""
SMALLEST_VOCABULARY: Final = 32_000
"""Tokens, for a model of unknown vocabulary. Source: Llama 2 and Mixtral, the smallest in wide use; a smaller one repeats more prompts by
chance."""
REPLAYED_SHARE: Final = 0.05
"""Prompts of a file that were sent again and found in a cache. Assumed: a twentieth of free prompts is about the error that a certified
figure may have."""
OWN_REPEATS_SHARE: Final = 0.5
"""Requests of a trace that may repeat an earlier prompt, because users do. Assumed: above one half the file was sent again."""
FAILED_SHARE: Final = 0.001
"""Failed requests of all. Assumed: one in a thousand; the article's valid runs had none, its crashed one 908."""
HITS_SHARE: Final = 0.01
"""Prompt tokens found in the prefix cache where no prompt shares anything. Source: the article, 0 % by its own counters.
Warm-up requests, copies of each client's first prompt, are allowed on top."""

# The servers -------------------------------------------------------------------------------------------------------

ENGINE_BALANCE: Final = 0.1
"""Allowed distance of an engine's tokens from the mean engine's, where it has many requests. Source: the article's engines peaked
at 251 to 256 requests running of 250 intended, 2.4 %; four times that. Few connections: see ENGINE_DEVIATIONS."""
ENGINE_DEVIATIONS: Final = 3.0
"""Standard deviations allowed for chance: of the connections that stick to a random server (sqrt(n) of n), and of the requests that
an engine serves in the window. Source: kube-proxy chooses at random, once for each connection."""
ENGINE_MOST: Final = 0.9
"""Widest spread allowed for chance. Assumed: an engine at a tenth of the mean took no part in the measurement."""
WAITING_SHARE: Final = 0.2
"""Requests that wait on one engine more than on another, on average, as a share of those that each should hold. Source: the article's
highest moment was 51 of 250, in sound runs; its third phase had 801 beside an idle engine."""
CACHE_SPREAD: Final = 0.02
"""How much more blocks the largest cache may have than the smallest. Assumed: vLLM gives the cache what a trial step leaves of a
GPU's memory, which is some megabytes more or less at each start; two per cent are below what repeats of a benchmark vary."""
WAITING_LEAST: Final = 2.0
"""Requests that may always wait. Assumed: one or two between steps are no queue."""
REACHED_SHARE: Final = 0.8
"""Requests that run or wait on the engines, as a share of those that the clients have in flight. Measured on H200: 98 to 99 % of 128 and
250 (facts/data/h200.yaml); 12 % of 1,600 where one API server process was full and a first token took 8 s instead of 0.2."""
PREEMPTED_SHARE: Final = 0.01
"""Preemptions per request that ended meanwhile. Source: the article, none. Assumed: one in a hundred costs less than one per cent."""
FOREIGN_SHARE: Final = 0.02
"""Allowed difference between the servers' and the clients' count of generated tokens. Assumed: about two readings, one a second, of a
run of two minutes."""
FOREIGN_PROMPTS_SHARE: Final = 0.05
"""The same for prompt tokens per generated token, over the steady window. Measured: 0.1 to 2.2 % on simulated servers
with windows of 21 to 61 s, whose prompts come in waves while readings come once a second; about twice that. Two requests more, since those
at either end count whole, and READINGS_S of the window."""
READINGS_S: Final = 1.0
"""Seconds by which readings may miss a window, both ends together. Source: the collector reads once a second."""
