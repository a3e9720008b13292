"""CustomResourceDefinitions: real ones from Go modules, small strict ones for the rest."""
