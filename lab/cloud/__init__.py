"""What Google and the kubelets would do, played on a scaled clock: machines, stock, Spot notices, disks, load balancer."""
