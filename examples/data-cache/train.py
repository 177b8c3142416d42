"""Train on a table that the job's cache streams: each rank reads rows of its own, and no volume is needed.

The table has the columns id, x and y, and y = 3x + 1 is to be found. EPOCHS is 10
unless set. A rank waits for a cache that starts again. A rank that the cache leaves
in the middle of an epoch fails, and the job restarts as a whole.
"""

import os
import time

import torch
import torch.distributed as dist
from pyarrow import flight
from torch.nn.parallel import DistributedDataParallel

HEAD = f"grpc://{os.environ['TRAIN_JOB_NAME']}-cache-service:50051"
ROWS, PATIENCE = 256, 300


def batches(rank: int, world: int):
    """The rows of a rank, from the workers of the cache that hold them."""
    path = flight.FlightDescriptor.for_path(str(rank), str(world))
    end = time.monotonic() + PATIENCE
    while True:
        try:
            with flight.connect(HEAD) as head:
                endpoints = head.get_flight_info(path).endpoints
            break
        except flight.FlightUnavailableError as error:
            if time.monotonic() > end:
                raise
            print(f"rank {rank} of {world} waits for the cache: {error}", flush=True)
            time.sleep(5)
    for endpoint in endpoints:
        with flight.connect(endpoint.locations[0]) as worker:
            for chunk in worker.do_get(endpoint.ticket):
                for first in range(0, chunk.data.num_rows, ROWS):
                    yield chunk.data.slice(first, ROWS)


device = "cuda" if torch.cuda.is_available() else "cpu"
if device == "cuda":
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group()
rank, world = dist.get_rank(), dist.get_world_size()
model = DistributedDataParallel(torch.nn.Linear(1, 1).to(device))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(int(os.environ.get("EPOCHS", "10"))):
    ids, losses = set(), []
    # One rank may have a batch more than another: those that are through join in what is left.
    with model.join():
        for batch in batches(rank, world):
            ids.update(batch["id"].to_pylist())
            x, y = (torch.tensor(batch[name].to_numpy(), dtype=torch.float32, device=device) for name in "xy")
            loss = torch.nn.functional.mse_loss(model(x.unsqueeze(1)).squeeze(1), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    # A small table may have no row for some of the ranks.
    rows, change = "no rows", ""
    if ids:
        rows = f"{len(ids)} rows from {min(ids)} to {max(ids)}"
        change = f", loss {losses[0]:.6f} -> {losses[-1]:.6f}"
    print(f"rank {rank} of {world}: epoch {epoch}, {rows}{change}", flush=True)
dist.destroy_process_group()
