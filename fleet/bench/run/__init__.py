"""Start, watch and download a measurement: `fleet bench run` and `fleet bench fetch`."""
