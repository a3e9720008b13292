"""The Google Cloud half: every input against Google's own API descriptions, so that a `pulumi up` does not find the mistake first."""
