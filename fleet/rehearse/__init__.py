"""The stack on a real Kubernetes control plane: built here, run on loopback, with Google's part played and bad days drilled."""
