"""LightGBM over several nodes: each trains on its rows, and all end with the same trees."""

import hashlib
import os
import socket
import time

import lightgbm
import numpy

ROWS = 2000
rank, machines = int(os.environ["LIGHTGBM_RANK"]), int(os.environ["LIGHTGBM_NUM_MACHINES"])


def address(machine: str) -> str:
    """A machine by its address, by which LightGBM knows itself; its name appears a moment after its pod."""
    host, _, port = machine.rpartition(":")
    for _ in range(600):
        try:
            return f"{socket.gethostbyname(host)}:{port}"
        except socket.gaierror:
            time.sleep(0.5)
    raise SystemExit(f"{host} has no address")


def sample(seed: int):
    """Rows, and what is to be learnt of them."""
    inputs = numpy.random.default_rng(seed).normal(size=(ROWS, 8))
    return inputs, 3 * inputs[:, 0] + numpy.sin(inputs[:, 1])


parameters = {
    "objective": "l2",
    "tree_learner": "data",
    "pre_partition": True,
    "machines": ",".join(map(address, os.environ["LIGHTGBM_MACHINES"].split(","))),
    "num_machines": machines,
    "local_listen_port": int(os.environ["LIGHTGBM_LOCAL_LISTEN_PORT"]),
    "num_threads": 1,
    "verbosity": -1,
}
rows = lightgbm.Dataset(*sample(seed=rank))
losses = {}
record = lightgbm.record_evaluation(losses)
model = lightgbm.train(parameters, rows, 40, valid_sets=[rows], valid_names=["rows"], callbacks=[record])
first, *_, last = losses["rows"]["l2"]
unseen, targets = sample(seed=99)
error = float(numpy.sqrt(((model.predict(unseen) - targets) ** 2).mean()))
counted = model.dump_model()["tree_info"][0]["tree_structure"]["internal_count"]
trees = hashlib.sha256(model.model_to_string().partition("\nparameters:")[0].encode()).hexdigest()[:16]
learnt = f"loss {first:.4f} -> {last:.4f}, trees {trees}, error {error:.4f}"
print(f"rank {rank} of {machines}: {counted} rows, {learnt}", flush=True)
if machines < 2 or counted != machines * ROWS:
    raise SystemExit(f"its trees are made of {counted} rows: it trains alone")
