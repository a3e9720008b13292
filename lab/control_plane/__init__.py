"""A real Kubernetes control plane on loopback, with kwok's simulated nodes.

`build.binaries` provides the programs, `cluster.ControlPlane` runs them, `modules.module_folders` fetches published definitions
of custom resources and charts, `build.helm` provides Helm.
"""
