"""Router pods: their own programs, run on this machine."""
