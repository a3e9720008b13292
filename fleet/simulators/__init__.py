"""What plays a real part on loopback: model servers and a bucket."""
