"""The stand-in for KEDA."""
