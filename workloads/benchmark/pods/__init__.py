"""Programs that run inside the pods: standard library only, passed to the image's own Python as text."""
