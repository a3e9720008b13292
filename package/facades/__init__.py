"""The components that the package offers: flat inputs over those of infra/ and workloads/."""
