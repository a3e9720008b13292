"""Client requests during drills: stub servers on loopback, and a steady client that counts lost requests."""
