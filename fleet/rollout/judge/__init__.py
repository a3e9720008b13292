"""Whether a canary may replace the servers: measured against one of them, judged, and written down for `fleet rollout promote`."""
