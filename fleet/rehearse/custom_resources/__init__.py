"""Custom resource definitions: the real ones where a Go module carries them, small strict ones of our own for the rest."""
