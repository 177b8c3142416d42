"""How a command starts on each kind of runtime."""

import shlex

import pytest

from trainyard_api.errors import UserError
from trainyard_assist.run.starters import Start, script_of, start

ELASTIC = ("sh", "-c", 'exec torchrun --nnodes=1:4 "$@"', "torchrun")


@pytest.mark.parametrize(
    ("policy", "command", "started"),
    [
        ("torch", "python train.py --epochs 3", "torchrun train.py --epochs 3"),
        ("torch", "python3 -u train.py", "torchrun train.py"),
        ("torch", "train.py -v", "torchrun train.py -v"),
        ("torch", "python -m team.train --lr 1", "torchrun -m team.train --lr 1"),
        ("torch", "python -c 'print(1)'", "torchrun --no_python python -c 'print(1)'"),
        ("torch", "/opt/py/bin/python train.py", "/opt/py/bin/python -m torch.distributed.run train.py"),
        ("torch", "torchrun --nproc-per-node 2 train.py", "torchrun --nproc-per-node 2 train.py"),
        ("torch", "python -m torch.distributed.run t.py", "python -m torch.distributed.run t.py"),
        ("torch", "accelerate launch train.py", "accelerate launch train.py"),
        ("torch", "bash run.sh", "bash run.sh"),
        ("torch", "run.sh 1", "bash run.sh 1"),
        ("torch", "nvidia-smi -L", "nvidia-smi -L"),
        ("torch", "python", "python"),
        ("mpi", "python train.py", "mpirun python train.py"),
        ("mpi", "train.py", "mpirun python train.py"),
        ("mpi", "./solve 8", "mpirun ./solve 8"),
        ("mpi", "mpirun -np 4 ./solve", "mpirun -np 4 ./solve"),
        ("mpi", "/usr/bin/mpiexec ./solve", "/usr/bin/mpiexec ./solve"),
        ("mpi", "bash run.sh", "bash run.sh"),
        ("jax", "python train.py", "python train.py"),
        ("", "python train.py", "python train.py"),
    ],
)
def test_a_command_starts_under_what_the_policy_needs(policy: str, command: str, started: str) -> None:
    assert start(shlex.split(command), policy, ()) == Start(tuple(shlex.split(started)))


@pytest.mark.parametrize(
    ("policy", "command", "started"),
    [
        ("mpi", "python train.py", "mpirun -x STEPS -x HF_TOKEN python train.py"),
        ("mpi", "mpirun ./solve", "mpirun ./solve"),
        ("torch", "python train.py", "torchrun train.py"),
    ],
)
def test_the_mpirun_that_is_put_before_a_command_passes_variables_on(
    policy: str, command: str, started: str
) -> None:
    variables = ("STEPS", "HF_TOKEN")
    assert start(shlex.split(command), policy, (), variables) == Start(tuple(shlex.split(started)))


@pytest.mark.parametrize(
    ("command", "args"),
    [("python train.py --epochs 3", "train.py --epochs 3"), ("python -m team.train", "-m team.train")],
)
def test_a_runtime_that_starts_torchrun_itself_gets_the_script(command: str, args: str) -> None:
    assert start(shlex.split(command), "torch", ELASTIC) == Start(args=tuple(shlex.split(args)))


@pytest.mark.parametrize("words", [[], ["lr=0.1", "epochs=2"], ["--epochs", "2"]])
def test_words_that_name_no_program_are_for_the_runtimes_own_command(words: list[str]) -> None:
    own = ("python", "-m", "trainers", "sft")
    assert start(words, "torch", own) == Start(args=tuple(words))


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ([], "there is no command, and the runtime has none of its own: say what to run after --"),
        (["lr=1"], "'lr=1' is not a program, and the runtime has none of its own: say what to run after --"),
    ],
)
def test_without_anything_to_start_nothing_is_sent(words: list[str], sentence: str) -> None:
    with pytest.raises(UserError) as error:
        start(words, "torch", ())
    assert str(error.value) == sentence


@pytest.mark.parametrize(
    ("command", "script"),
    [
        ("python train.py data.csv", "train.py"),
        ("torchrun --nproc-per-node 2 ./train.py", "./train.py"),
        ("bash jobs/train.sh", "jobs/train.sh"),
        ("./train.sh 3", "./train.sh"),
        ("python -m team.train data.csv", ""),
        ("python -c 'print(1)' x.py", ""),
        ("accelerate launch --config_file /home/a/fsdp.yaml train.py", "train.py"),
        ("torchrun --master-addr 10.0.0.1 train.py data.csv", "train.py"),
        ("torchrun --log-dir logs/v1.2 jobs/train.py -m x", "jobs/train.py"),
        ("torchrun --log-dir logs/v1.2 -m team.train", ""),
        ("mpirun -x A=1.5 bash run.sh train.py", "run.sh"),
        ("python app.pyz data.csv", "app.pyz"),
        ("./solve.bin train.py", "./solve.bin"),
        ("", ""),
    ],
)
def test_the_script_of_a_command_is_its_file(command: str, script: str) -> None:
    assert script_of(shlex.split(command)) == script
