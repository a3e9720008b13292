"""The lessons, each once: called by `fleet config check`, by the policy pack and by `fleet verify`. Needs no pydantic."""
