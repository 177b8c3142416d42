"""Training over several nodes with Keras: each has its share of the rows, all have equal weights.

After every epoch the state goes to CHECKPOINT_DIR, where a job that restarts
finds it. EPOCHS is 20 unless set.
"""

import json
import os

os.environ["TF_USE_LEGACY_KERAS"] = "1"  # Keras 3's fit cannot train over several workers
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")

import tensorflow as tf

EPOCHS = int(os.environ.get("EPOCHS", "20"))
config = json.loads(os.environ["TF_CONFIG"])
rank, workers = config["task"]["index"], len(config["cluster"]["worker"])
strategy = tf.distribute.MultiWorkerMirroredStrategy()
replicas, devices = strategy.num_replicas_in_sync, max(1, len(tf.config.list_physical_devices("GPU")))
if replicas != workers * devices:
    raise SystemExit(f"{replicas} replicas in sync, not {workers} x {devices}: each node trains alone")


def say(text: str) -> None:
    """Print who says it, too."""
    print(f"rank {rank} of {workers}: {text}", flush=True)


tf.keras.utils.set_random_seed(0)
inputs = tf.random.normal((1024, 16))
targets = inputs @ tf.random.normal((16, 1))
by_row = tf.data.Options()
by_row.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
rows = tf.data.Dataset.from_tensor_slices((inputs, targets)).repeat().batch(64).with_options(by_row)
with strategy.scope():
    layers = [tf.keras.layers.Dense(32, "relu", input_shape=(16,)), tf.keras.layers.Dense(1)]
    model = tf.keras.Sequential(layers)
    model.compile(tf.keras.optimizers.SGD(0.02), "mse")

backup = tf.keras.callbacks.BackupAndRestore(os.environ["CHECKPOINT_DIR"])
report = tf.keras.callbacks.LambdaCallback(
    on_epoch_end=lambda epoch, logs: say(f"epoch {epoch + 1} of {EPOCHS}: loss {logs['loss']:.6f}")
)
model.fit(rows, epochs=EPOCHS, steps_per_epoch=20, verbose=0, callbacks=[backup, report])
weights = sum(float(tf.reduce_sum(tf.abs(weight))) for weight in model.trainable_weights)
say(f"{replicas} replicas in sync, weights {weights:.6f}")
