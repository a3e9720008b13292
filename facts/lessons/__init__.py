"""The lessons, each once: called by `fleet check`, by the policy pack and by `fleet verify`. Needs no pydantic."""
