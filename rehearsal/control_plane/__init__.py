"""The control plane itself: built once, started on loopback, ended with everything it started."""
