"""The training function of the digits example: a small net that learns to read handwriting.

The Kubeflow SDK ships the source of this one function into the pods, so
everything that it needs is imported inside it.
"""


def train_digits():
    """Train a convolutional net on scikit-learn's handwritten digits with DistributedDataParallel.

    Each rank trains on its own share of the images; rank 0 prints progress and,
    at the end, the accuracy on images that none of them has trained on.
    """
    import os
    import socket

    import torch
    import torch.distributed as dist
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split
    from torch import nn
    from torch.nn.parallel import DistributedDataParallel

    torch.manual_seed(0)
    torch.set_num_threads(1)
    dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    device = torch.device("cpu")
    if torch.cuda.is_available():
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))

    digits = load_digits()
    images, held_out, labels, held_out_labels = train_test_split(
        digits.images / 16.0, digits.target, test_size=0.25, random_state=0, stratify=digits.target
    )
    mine = torch.tensor(images[rank::world], dtype=torch.float32).unsqueeze(1).to(device)
    my_labels = torch.tensor(labels[rank::world]).to(device)
    print(
        f"rank {rank} of {world} on {socket.gethostname()}: {len(mine)} of {len(images)} images", flush=True
    )

    net = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(32 * 4 * 4, 10),
    ).to(device)
    model = DistributedDataParallel(net)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    loss_of = nn.CrossEntropyLoss()

    epochs, batch = 12, 32
    # Every rank takes the same number of steps, or the last one would wait for ever.
    steps = (len(images) // world) // batch
    for epoch in range(1, epochs + 1):
        order = torch.randperm(len(mine))
        total = 0.0
        for step in range(steps):
            chosen = order[step * batch : (step + 1) * batch]
            optimizer.zero_grad()
            loss = loss_of(model(mine[chosen]), my_labels[chosen])
            loss.backward()
            optimizer.step()
            total += loss.item()
        if rank == 0:
            print(f"epoch {epoch} of {epochs}: loss {total / steps:.4f}", flush=True)

    if rank == 0:
        net.eval()
        with torch.no_grad():
            inputs = torch.tensor(held_out, dtype=torch.float32).unsqueeze(1).to(device)
            guesses = net(inputs).argmax(dim=1).cpu()
        accuracy = (guesses == torch.tensor(held_out_labels)).float().mean().item()
        print(f"accuracy {accuracy:.4f} on {len(held_out)} images that no rank has trained on", flush=True)
    dist.barrier()
    dist.destroy_process_group()
