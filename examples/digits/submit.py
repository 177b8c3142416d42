"""Send the digits example with the Kubeflow SDK, follow it, and say how it went.

Run it where KUBECONFIG leads to a cluster with Trainyard:

    trainyard sandbox exec -- python examples/digits/submit.py

The image needs scikit-learn, whose digits are trained on. The sandbox's has it;
PyTorch's own, which the catalog names, does not: elsewhere, set `image` of
CustomTrainer, or `packages_to_install=["scikit-learn"]` if pods reach a package index.

The same job for kubectl is `trainjob.yaml` beside this file. Exit code 1: the
job failed.
"""

import sys

from kubeflow.trainer import CustomTrainer, TrainerClient
from train import train_digits

NODES = 2


def main() -> int:
    """Submit, follow the logs of rank 0, wait for the end."""
    client = TrainerClient()
    print("Runtimes:", ", ".join(runtime.name for runtime in client.list_runtimes()))
    name = client.train(
        runtime="torch-distributed", trainer=CustomTrainer(func=train_digits, num_nodes=NODES)
    )
    print(f"TrainJob {name} is submitted.")
    client.wait_for_job_status(name, status={"Running", "Complete", "Failed"}, timeout=180)
    for line in client.get_job_logs(name, follow=True):
        print(line.rstrip())
    job = client.wait_for_job_status(name, status={"Complete", "Failed"}, timeout=180)
    print(f"TrainJob {job.name} is {job.status}:")
    for step in job.steps:
        print(f"  {step.name}  {step.pod_name}  {step.status}")
    return 0 if job.status == "Complete" else 1


if __name__ == "__main__":
    sys.exit(main())
