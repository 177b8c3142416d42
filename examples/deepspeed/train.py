"""ZeRO-1 over several nodes with DeepSpeed: each rank holds its share of the optimizer's state.

STEPS is 60 unless set.
"""

import os
import socket

import deepspeed
import torch
import torch.distributed as dist

STEPS = int(os.environ.get("STEPS", "60"))
deepspeed.init_distributed(dist_backend="gloo")  # ranks and addresses are Open MPI's
rank, ranks, host = dist.get_rank(), dist.get_world_size(), socket.gethostname()
hosts = [""] * ranks
dist.all_gather_object(hosts, host)
if len(set(hosts)) == 1:
    raise SystemExit(f"all {ranks} ranks are on {host}, and the other nodes do nothing")

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.ReLU(), torch.nn.Linear(64, 1))
config = {
    "train_micro_batch_size_per_gpu": 32,
    "zero_optimization": {"stage": 1},
    "zero_allow_untested_optimizer": True,
}
# PyTorch's optimizer: DeepSpeed's own for processors would be compiled when the job starts.
adam = torch.optim.AdamW(model.parameters(), lr=0.01)
engine, optimizer, _, _ = deepspeed.initialize(model=model, optimizer=adam, config=config)
truth = torch.randn(16, 1, generator=torch.Generator().manual_seed(7))
rows = torch.Generator().manual_seed(100 + rank)
losses = []
for _ in range(STEPS):
    inputs = torch.randn(32, 16, generator=rows)
    loss = torch.nn.functional.mse_loss(engine(inputs), inputs @ truth)
    engine.backward(loss)
    engine.step()
    losses.append(loss.item())
held = sum(state["exp_avg"].numel() for state in adam.state.values())
parameters = sum(parameter.numel() for parameter in model.parameters())
weights = model[0].weight.abs().sum().item()
print(
    f"rank {rank} of {ranks} on {host}: loss {losses[0]:.4f} -> {losses[-1]:.4f}, weights {weights:.4f}, "
    f"moments of {held} of {parameters} parameters",
    flush=True,
)
dist.barrier()  # who leaves first takes what others still read
dist.destroy_process_group()
