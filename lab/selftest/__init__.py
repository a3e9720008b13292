"""The benchmark against itself: real clients, real files and a server whose every token is counted, on one machine."""
