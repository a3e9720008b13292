"""Requests while things go wrong: servers with the timing of a node on loopback, and a steady driver that counts losses."""
