"""Lightning over several nodes: torchrun starts its ranks, and each has its share of the rows.

After every epoch the state goes to CHECKPOINT_DIR, where a job that restarts finds
it. EPOCHS is 10 unless set.
"""

import os
import socket
import tempfile

import lightning
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from torch.nn.functional import mse_loss

EPOCHS = int(os.environ.get("EPOCHS", "10"))


class Regression(lightning.LightningModule):
    """A small net that learns a linear function."""

    def __init__(self):
        super().__init__()
        self.net = torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.ReLU(), torch.nn.Linear(64, 1))

    def training_step(self, batch):
        """The loss of a batch."""
        inputs, targets = batch
        loss = mse_loss(self.net(inputs), targets)
        self.log("loss", loss, on_step=False, on_epoch=True, sync_dist=True)
        return loss

    def configure_optimizers(self):
        """The optimizer."""
        return torch.optim.AdamW(self.parameters(), lr=0.01)

    def on_train_start(self):
        """Say where the rank is, and where it starts."""
        begins = f"resumes after epoch {self.current_epoch}" if self.current_epoch else "starts"
        print(f"{self.rank()} on {socket.gethostname()}: {begins}", flush=True)

    def on_train_epoch_end(self):
        """Say how it goes."""
        loss = self.trainer.callback_metrics["loss"]
        print(f"{self.rank()}: epoch {self.current_epoch + 1} of {EPOCHS}: loss {loss:.6f}", flush=True)

    def rank(self):
        """Who this is."""
        return f"rank {self.global_rank} of {self.trainer.world_size}"


lightning.seed_everything(0, verbose=False)
inputs = torch.randn(2048, 16)
rows = torch.utils.data.TensorDataset(inputs, inputs @ torch.randn(16, 1))
trainer = lightning.Trainer(
    # Lightning does not read these from torchrun's environment by itself.
    num_nodes=int(os.environ["GROUP_WORLD_SIZE"]),
    devices=int(os.environ["LOCAL_WORLD_SIZE"]),
    strategy="ddp",
    max_epochs=EPOCHS,
    callbacks=[ModelCheckpoint(os.environ["CHECKPOINT_DIR"], save_last=True)],
    logger=False,
    enable_progress_bar=False,
    enable_model_summary=False,
)
# Lightning moves each checkpoint from a file of this folder, which is atomic only within a volume.
tempfile.tempdir = os.environ["CHECKPOINT_DIR"]
model = Regression()
trainer.fit(model, torch.utils.data.DataLoader(rows, batch_size=32, shuffle=True), ckpt_path="last")
weights = sum(weight.abs().sum().item() for weight in model.parameters())
print(f"{model.rank()}: weights {weights:.6f}", flush=True)
