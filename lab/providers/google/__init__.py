"""The provider of Google Cloud resources: a simulated cloud, and inputs checked against Google's API descriptions."""
