"""OpenAI-compatible servers that keep a node's time and compute nothing, for rehearsals, self-tests, `fleet verify` and tests."""
