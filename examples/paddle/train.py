"""PaddlePaddle over several nodes: each has rows of its own, all have equal weights."""

import os

import paddle
import paddle.distributed

paddle.distributed.init_parallel_env()
rank, nodes = paddle.distributed.get_rank(), paddle.distributed.get_world_size()
if nodes != int(os.environ["PADDLE_TRAINERS_NUM"]) or nodes < 2:
    raise SystemExit(f"{nodes} in the group: each node trains alone")

paddle.seed(0)
truth = paddle.randn((16, 1))
model = paddle.DataParallel(paddle.nn.Linear(16, 1))
optimizer = paddle.optimizer.Adam(0.05, parameters=model.parameters())
paddle.seed(1 + rank)
for step in range(1, 201):
    inputs = paddle.randn((64, 16))
    loss = paddle.nn.functional.mse_loss(model(inputs), inputs @ truth)
    loss.backward()
    optimizer.step()
    optimizer.clear_grad()
    if step in (1, 100, 200):
        print(f"rank {rank} of {nodes}: step {step} of 200: loss {float(loss):.6f}", flush=True)

mine = paddle.concat([parameter.flatten() for parameter in model.parameters()])
every = []
paddle.distributed.all_gather(every, mine)
if len(every) != nodes or any(not bool((other == mine).all()) for other in every):
    raise SystemExit("the weights differ: each node trains alone")
print(f"rank {rank} of {nodes}: weights {float(mine.abs().sum()):.6f}", flush=True)
paddle.distributed.barrier()  # who leaves first takes what others still read
