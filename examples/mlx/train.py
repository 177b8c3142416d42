"""Training over several nodes with MLX: each rank has rows of its own, all have equal weights.

STEPS is 80 unless set.
"""

import os
import socket
import zlib

import mlx.core as mx
import mlx.optimizers as optim
from mlx import nn

STEPS = int(os.environ.get("STEPS", "80"))
mx.set_default_device(mx.cpu)
world = mx.distributed.init(strict=True, backend="mpi")  # strict: without MPI there is no world of one
rank, ranks, host = world.rank(), world.size(), socket.gethostname()
hosts = mx.distributed.all_gather(mx.array([zlib.crc32(host.encode())], dtype=mx.uint32)).tolist()
if len(set(hosts)) == 1:
    raise SystemExit(f"all {ranks} ranks are on {host}, and the other nodes do nothing")

mx.random.seed(0)
truth = mx.random.normal((16, 1))
model = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 1))
optimizer = optim.AdamW(learning_rate=0.01)
step = nn.value_and_grad(model, lambda inputs, targets: nn.losses.mse_loss(model(inputs), targets))
mx.random.seed(100 + rank)
losses = []
for _ in range(STEPS):
    inputs = mx.random.normal((32, 16))
    loss, gradients = step(inputs, inputs @ truth)
    optimizer.update(model, nn.average_gradients(gradients))
    mx.eval(model.parameters(), optimizer.state, loss)
    losses.append(loss.item())
weights = mx.abs(model.layers[0].weight).sum().item()
learnt = f"loss {losses[0]:.4f} -> {losses[-1]:.4f}"
print(f"rank {rank} of {ranks} on {host}: {learnt}, weights {weights:.4f}", flush=True)
