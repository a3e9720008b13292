"""The router: what chooses a server for each request, in pods of this stack."""
