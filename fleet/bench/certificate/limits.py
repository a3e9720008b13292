"""Every limit of the certificate, with where it comes from. docs/certificate.md explains them."""

from __future__ import annotations

from typing import Final

# The clients -------------------------------------------------------------------------------------------------------

CLIENT_CPU_GOAL: Final = 0.5
"""Mean share of one core that a client should stay below. Measured: vLLM 0.18.1's client path takes 30 to 35 us of CPU for a
chunk, so that a core carries about 30,000 chunks a second; half of it leaves room for bursts."""
CLIENT_CPU_LIMIT: Final = 0.8
"""Mean share of one core beyond which a client counts as saturated. Source: the same trial: beyond it chunks wait for the
client's event loop, and the wait is in every latency. The article's client used 99 %, and gave 242K where 740K was there.
Measured on H200 (own trial over HTTP, 2026-11-22): at 93 % a first token after 2.2 s, where eight clients see 0.22 s at the same rate."""
CLIENT_CPU_PEAK_LIMIT: Final = 0.95
"""Share of one core in any one second. Assumed: a client is one thread, so a second at 95 % is one in which chunks queued."""
POD_CPU_LIMIT: Final = 0.8
"""Share of a pod's cores that its clients may use together in any one second. Assumed: as for one core; beyond it the
kernel throttles clients that have headroom themselves."""
LAG_SHARE_OF_ITL: Final = 0.1
"""Event-loop lag (p99) as a share of the median time between chunks: what the client itself may add to a latency. Assumed:
a tenth, below the difference between two servers worth comparing."""
TOGETHER_SHARE: Final = 0.5
"""Median over mean time between chunks below which most arrive together. Assumed: half the gaps are then near 0. The article's, whose
answers stall while prompts are read, have a median of 74.4 ms and a mean of 95.6."""
LAG_FLOOR_MS: Final = 2.0
"""Lag that is always allowed. Source: CPython's selectors.EpollSelector waits whole milliseconds, rounded up;
one more for the tick itself."""
LIMITING_LAG_SHARE_OF_ITL: Final = 0.5
"""Lag from which a client limits the rate, whatever CPU it used: it reads a chunk half a chunk's time late. Assumed; below it the lag
distorts latencies only. Seen on a busy machine: 5 ms at 50 ms between chunks, without loss of rate."""
OPEN_FILES_LIMIT: Final = 0.9
"""Share of the process's open-file limit. Source: with 1,024 files, 919 of 10,240 requests succeeded at 1,024 connections
(ROCm/ATOM issue 1394); other files need the last tenth."""
EPHEMERAL_PORTS: Final = 28_232
"""Ports for connections from one address to another. Source: Linux, net.ipv4.ip_local_port_range, 32768 to 60999."""
PORTS_LIMIT: Final = 0.9
"""Share of them. Assumed: closed connections keep their port for a minute."""
CLIENT_BALANCE: Final = 0.1
"""How far a client's rate per connection may lie from the median client's. Assumed: a tenth, and three standard errors of
its number of requests on top (lengths of requests vary by at most their mean)."""

# The run -----------------------------------------------------------------------------------------------------------

RELEASE_MEDIAN_S: Final = 0.010
"""Median delay of the clients behind the common start. Source: inference-perf, its guide loadgen.md: accept a run when the median
schedule delay is below 10 ms."""
RELEASE_MAX_S: Final = 0.25
"""Longest delay of one client. Assumed: at a window of 20 s and more, about one per cent of it."""
START_SKEW_S: Final = 1.0
"""Between the first client's first request and the last one's, and between the common start and the last one's. Assumed: the
resolution of the timeline and of the servers' readings."""
IN_FLIGHT_SHARE: Final = 0.95
"""Requests in flight over the steady window, as a share of those intended. Assumed: the article's throughput changed by 2 %
between 2,000 and 8,000 requests in flight a node, so a twentieth less load changes it far less than repeats vary."""
IN_FLIGHT_MOST: Final = 1.02
"""More means wrong clocks or files: clients hold no more connections than intended."""
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
MIX_SHARE: Final = 0.05
"""How far input per output token in the steady window may lie from the whole run's. Measured: 0.7 to 1.9 % in the same loops.
Assumed: at the limit total tok/s is off by 3 %, where two thirds of the tokens are input."""
OVERSTATEMENT_SHARE: Final = 0.05
"""How far the sum of the clients' own rates may lie above the rate of the window they shared. Where all clients work at the
same time the sum is the lower one, as it holds their tails. Assumed: a twentieth, as for drift."""
CLOCK_SHARE: Final = 0.005
"""Uncertainty of the clocks at both ends together, as a share of the steady window. Assumed: well below what repeats vary."""
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

FAILED_SCRAPES_SHARE: Final = 0.05
"""Readings of /metrics that failed. Assumed: one in twenty, which hardly changes a mean over seconds."""
ENGINE_BALANCE: Final = 0.1
"""Allowed distance of an engine's tokens from the mean engine's, where it has many requests. Source: the article's engines peaked
at 251 to 256 requests running of 250 intended, 2.4 %; four times that. Few connections: see ENGINE_DEVIATIONS."""
ENGINE_DEVIATIONS: Final = 3.0
"""Standard deviations allowed for chance: of the connections that stick to a random server (sqrt(n) of n), and of the requests that
an engine serves in the window. Source: kube-proxy chooses at random, once for each connection."""
ENGINE_MOST: Final = 0.9
"""Widest spread allowed for chance. Assumed: an engine at a tenth of the mean took no part in the measurement."""
IDLE_SHARE: Final = 0.1
"""A queue below this share of the longest one counts as none. Assumed."""
WAITING_SHARE: Final = 0.2
"""Requests that wait on one engine on average, as a share of those it should hold. Source: the article's highest moment
was 51 of 250, in sound runs; a mean as high is a queue that does not drain."""
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
