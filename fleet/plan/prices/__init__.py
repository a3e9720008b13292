"""Machine prices, and updates of facts/data/prices.csv from a downloaded SKU list."""
