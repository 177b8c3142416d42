"""What Kubeflow's own tools look for."""
