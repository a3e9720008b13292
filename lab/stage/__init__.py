"""A stage: one stack on its own control plane and simulated cloud, with the engine, meters and client requests."""
