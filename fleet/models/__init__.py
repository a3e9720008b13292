"""The catalogue of models, as text and as one document."""
