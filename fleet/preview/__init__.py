"""The offline preview: records the program over Pulumi's own protocol and reports on it."""
