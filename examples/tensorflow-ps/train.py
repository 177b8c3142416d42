"""Training with a parameter server: it holds the weights, workers compute, and the chief has them do so.

All of them run this script. After every 100 steps the chief writes a checkpoint
to CHECKPOINT_DIR, where it goes on if the job restarts. STEPS is 1000 unless set.
"""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")

import tensorflow as tf

tf.get_logger().setLevel("ERROR")
STEPS = int(os.environ.get("STEPS", "1000"))
resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver(rpc_layer="grpc")
cluster = resolver.cluster_spec()
if resolver.task_type != "chief":
    server = tf.distribute.Server(cluster, resolver.task_type, resolver.task_id, protocol="grpc")
    server.join()  # until the chief has ended: then the job ends this one

strategy = tf.distribute.ParameterServerStrategy(resolver)
coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
truth = tf.random.stateless_normal((16, 1), seed=(0, 0))
with strategy.scope():
    weights = tf.Variable(tf.zeros((16, 1)))
done = tf.Variable(0, dtype=tf.int64)


def rows() -> tf.data.Dataset:
    """What a worker reads: by `mine`, a number of its own, the chief sees who has computed a step."""
    mine = tf.random.uniform((), maxval=2**31 - 1, dtype=tf.int32)
    return tf.data.Dataset.range(2**40).map(lambda _: (tf.random.normal((64, 16)), mine))


@tf.function
def step(batches):
    """One step of one worker: the loss before it, and who it was."""
    inputs, mine = next(batches)
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((inputs @ (weights - truth)) ** 2)
    weights.assign_sub(0.003 * tape.gradient(loss, weights))
    return loss, mine


on_the_chief = tf.train.CheckpointOptions(experimental_io_device="/job:chief")
checkpoint = tf.train.Checkpoint(weights=weights, done=done)
manager = tf.train.CheckpointManager(checkpoint, os.environ["CHECKPOINT_DIR"], max_to_keep=2)
if manager.latest_checkpoint:
    checkpoint.restore(manager.latest_checkpoint, options=on_the_chief).assert_consumed()
first, seen = int(done), set()
print(f"weights on {weights.device}, {f'resumes at step {first}' if first else 'starts'}", flush=True)
batches = iter(coordinator.create_per_worker_dataset(rows))
while done < STEPS:
    results = [coordinator.schedule(step, args=(batches,)) for _ in range(100)]
    coordinator.join()
    losses, workers = zip(*(result.fetch() for result in results), strict=True)
    seen.update(int(worker) for worker in workers)
    done.assign_add(100)
    manager.save(options=on_the_chief)
    print(f"step {int(done)} of {STEPS}: loss {sum(losses) / 100:.6f}", flush=True)
if first == 0 and len(seen) < cluster.num_tasks("worker"):
    raise SystemExit(f"{len(seen)} of {cluster.num_tasks('worker')} workers have computed")
print(f"{cluster.num_tasks('worker')} workers, weights {float(tf.norm(weights - truth)):.6f} off", flush=True)
