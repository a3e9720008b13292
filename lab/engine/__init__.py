"""The real Pulumi engine of a rehearsal: its program, its language host, its project folder, and a driver."""
