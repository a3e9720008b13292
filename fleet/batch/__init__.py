"""A batch of documents in a file: what its lines ask, how many tokens they are, and what processing them costs."""
