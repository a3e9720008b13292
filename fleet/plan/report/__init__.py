"""The plan as a page: pictures drawn by hand, tables, where every number comes from."""
