"""Read-only checks of Google Cloud before `pulumi up`, with the user's gcloud."""
