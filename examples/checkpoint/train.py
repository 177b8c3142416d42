"""Training that continues where it was: digits again, with a checkpoint after every epoch.

Each rank trains on its own share, and all find the last checkpoint in
CHECKPOINT_DIR. With one seed, deterministic algorithms and an order that
depends only on the epoch, a run ends with the same loss however often it was
interrupted. EPOCHS is 300 unless set.
"""

import os
from pathlib import Path

import torch
import torch.distributed as dist
from sklearn.datasets import load_digits
from torch import nn
from torch.nn.parallel import DistributedDataParallel

EPOCHS = int(os.environ.get("EPOCHS", "300"))
BATCH = 32
CHECKPOINT = Path(os.environ["CHECKPOINT_DIR"], "latest.pt")

torch.manual_seed(0)
torch.use_deterministic_algorithms(True)
torch.set_num_threads(1)
dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()

digits = load_digits()
images = torch.tensor(digits.images[rank::world] / 16.0, dtype=torch.float32).unsqueeze(1)
labels = torch.tensor(digits.target[rank::world])
# Every rank takes the same number of steps, or the last one would wait for ever.
steps = len(digits.target) // world // BATCH

model = DistributedDataParallel(
    nn.Sequential(nn.Conv2d(1, 16, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(16 * 9, 10))
)
optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
loss_of = nn.CrossEntropyLoss()

first = 1
if CHECKPOINT.exists():
    saved = torch.load(CHECKPOINT)
    model.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
    first = saved["epoch"] + 1
    print(f"rank {rank} of {world}: resumes at step {saved['epoch'] * steps}", flush=True)
else:
    print(f"rank {rank} of {world}: starts", flush=True)
# Nobody writes a new checkpoint while another still looks for the last one.
dist.barrier()

for epoch in range(first, EPOCHS + 1):
    order = torch.randperm(len(images), generator=torch.Generator().manual_seed(epoch))
    total = torch.zeros(1)
    for step in range(steps):
        chosen = order[step * BATCH : (step + 1) * BATCH]
        optimizer.zero_grad()
        loss = loss_of(model(images[chosen]), labels[chosen])
        loss.backward()
        optimizer.step()
        total += loss.detach()
    dist.all_reduce(total)
    if rank == 0:
        # Renamed when it is whole: a pod that dies while writing spoils nothing.
        partial = CHECKPOINT.with_suffix(".partial")
        state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch}
        torch.save(state, partial)
        partial.rename(CHECKPOINT)
        print(f"epoch {epoch} of {EPOCHS}: loss {total.item() / steps / world:.10f}", flush=True)

dist.barrier()
dist.destroy_process_group()
