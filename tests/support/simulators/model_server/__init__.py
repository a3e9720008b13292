"""Simulated OpenAI-compatible servers with a node's timing, for rehearsals and tests."""
