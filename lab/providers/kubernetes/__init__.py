"""The provider of Kubernetes objects: create, update, await, delete, diagnose and account for objects as pulumi-kubernetes does."""
