"""Records the program over Pulumi's own protocol."""
