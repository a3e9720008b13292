"""The `fleet` command line: one thin module per verb."""
