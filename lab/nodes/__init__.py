"""What a cluster has beside its control plane: nodes, kubelets, disks and Google's controllers, as kwok's Stages and a node maker."""
