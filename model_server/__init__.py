"""An OpenAI-compatible server that keeps a node's time and computes nothing, for rehearsals, self-tests and tests."""
