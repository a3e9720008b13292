"""The Google Cloud half: every input against Google's own API descriptions, before there is a project."""
