"""Requests during a drill: a small OpenAI-compatible server per pod, and a steady driver that counts what is lost."""
