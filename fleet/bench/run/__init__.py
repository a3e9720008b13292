"""A measurement started, watched, fetched and judged from a laptop: what `fleet bench run` and `fleet bench fetch` do."""
