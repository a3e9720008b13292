"""A simulated OpenAI-compatible server with the timing of a node, for tests."""
