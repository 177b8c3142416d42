"""FSDP2 over several nodes: each rank holds a shard of the parameters and of the optimizer's state.

Every 20 steps each rank writes its shard below CHECKPOINT_DIR, and a job that
restarts continues from the newest checkpoint that is whole. A step's rows depend
only on step and rank, so a run ends with the same loss however often it was
interrupted. STEPS is 200 unless set.
"""

import os
import shutil
import socket
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.functional import mse_loss

STEPS, EVERY = int(os.environ.get("STEPS", "200")), 20
FOLDER = Path(os.environ["CHECKPOINT_DIR"])

device = "cuda" if torch.cuda.is_available() else "cpu"
if device == "cuda":
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group()
rank, world = dist.get_rank(), dist.get_world_size()
mesh = init_device_mesh(device, (world,))
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.ReLU(), torch.nn.Linear(64, 1)).to(device)
for part in (model[0], model[2], model):
    # On processors PyTorch 2.6 cannot shard the parameters again between forward and backward.
    fully_shard(part, mesh=mesh, reshard_after_forward=device == "cuda")
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)

# All continue from the one that rank 0 finds. Of a checkpoint .metadata is written last: then it is whole.
newest = [max((int(file.parent.name) for file in FOLDER.glob("*/.metadata")), default=0)]
dist.broadcast_object_list(newest, device=torch.device(device))
[first] = newest
if first:
    weights, moments = get_state_dict(model, optimizer)
    dcp.load({"model": weights, "optimizer": moments}, checkpoint_id=FOLDER / str(first))
    set_state_dict(model, optimizer, model_state_dict=weights, optim_state_dict=moments)
shard = model[0].weight.to_local().shape[0]
begins = f"resumes at step {first}" if first else "starts"
print(f"rank {rank} of {world} on {socket.gethostname()}: {begins} with {shard} of 64 rows", flush=True)

truth = torch.randn(16, 1, generator=torch.Generator().manual_seed(7))
for step in range(first + 1, STEPS + 1):
    inputs = torch.randn(32, 16, generator=torch.Generator().manual_seed(step * world + rank))
    loss = mse_loss(model(inputs.to(device)), (inputs @ truth).to(device))
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    if step == 1 or step % EVERY == 0:
        total = loss.detach()
        dist.all_reduce(total, dist.ReduceOp.SUM)
        if rank == 0:
            print(f"step {step} of {STEPS}: loss {total.item() / world:.6f}", flush=True)
    if step % EVERY == 0:
        weights, moments = get_state_dict(model, optimizer)
        dcp.save({"model": weights, "optimizer": moments}, checkpoint_id=FOLDER / str(step))
        if rank == 0:
            shutil.rmtree(FOLDER / str(step - EVERY), ignore_errors=True)

dist.barrier()
dist.destroy_process_group()
