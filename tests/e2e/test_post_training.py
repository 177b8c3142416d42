"""Language models are post-trained over two nodes, on CPUs; the job makes its model and data itself."""

import re
from typing import Any

import pytest
import yaml

from tests.support.cluster import Cluster, Object, add
from tests.support.patience import LEARNED, eventually
from tests.support.runs import record
from trainyard_sandbox.paths import PROJECT

pytestmark = [pytest.mark.sandbox(area="runtimes"), pytest.mark.long]


@pytest.fixture(scope="module", autouse=True)
def image(platform: Cluster) -> None:
    add(platform.name, "trainers")


PACKAGES = ("trl", "transformers", "peft", "torch")
"""Whose versions are recorded."""

ASKED = """
import sys
from peft import AutoPeftModelForCausalLM
from transformers import AutoModelForCausalLM, AutoTokenizer
output = "/workspace/output"
tokenizer = AutoTokenizer.from_pretrained(f"{output}/model")
prompt = tokenizer("3 plus 4 is", return_tensors="pt")
said = []
for model in (
    AutoModelForCausalLM.from_pretrained(f"{output}/model"),
    AutoPeftModelForCausalLM.from_pretrained(f"{output}/adapter"),
):
    answer = model.generate(**prompt, max_new_tokens=4, do_sample=False)
    said.append(tokenizer.decode(answer[0, prompt["input_ids"].shape[1] :], skip_special_tokens=True))
print(f"merged says {said[0]!r}, the adapter {said[1]!r}")
sys.exit(not (said[0] == said[1] and any(character.isdigit() for character in said[0])))
"""


def example(method: str, name: str, *more: str) -> Object:
    """The TrainJob of examples/post-training, with these settings besides."""
    text = (PROJECT / "examples" / "post-training" / f"{method}.yaml").read_text()
    job: Object = yaml.safe_load(text)
    job["metadata"] = {"name": name, "namespace": "default"}
    keys = {setting.partition("=")[0] for setting in more}
    trainer = job["spec"]["trainer"]
    trainer["args"] = [one for one in trainer["args"] if one.partition("=")[0] not in keys] + list(more)
    return job


def values(platform: Cluster, job: str, key: str) -> list[float]:
    """What a job has logged under a key, step by step: the first rank alone logs."""
    text = "".join(platform.logs(job).values())
    return [float(value) for value in re.findall(rf"'{key}': '?(-?[\d.e-]+)", text)]


def ends(values: list[float]) -> tuple[float, float]:
    """The means of the first and of the last five."""
    assert len(values) >= 10, values
    return sum(values[:5]) / 5, sum(values[-5:]) / 5


def whole_checkpoints(platform: Cluster, job: str) -> list[Any]:
    volumes = platform.sandbox.instance.dir / "volumes"
    return list(volumes.glob(f"*_default_initializer-{job}/output/checkpoint-*/trainer_state.json"))


def test_an_adapter_learns_goes_on_after_a_kill_and_answers_as_the_merged_model_does(
    platform: Cluster,
) -> None:
    job = example("sft", "tuned", "max_steps=120")
    trainer = job["spec"]["trainer"]
    trainer["command"][2] = trainer["command"][2].replace("exec python", "python")
    trainer["command"][2] += f" && exec python - <<'END'\n{ASKED}\nEND"
    platform.apply(job)
    eventually("it has a checkpoint", lambda: whole_checkpoints(platform, "tuned"), within=LEARNED)
    of_node = "jobset.sigs.k8s.io/jobset-name=tuned,jobset.sigs.k8s.io/replicatedjob-name=node"
    [pod] = platform.list("pods", f"{of_node},batch.kubernetes.io/job-completion-index=1")
    platform.kill(pod)
    platform.wait_for_condition("tuned", "Complete", within=LEARNED)
    text = "".join(platform.logs("tuned").values())
    assert re.search(r"resumes from /workspace/output/checkpoint-\d+", text)
    assert "/workspace/output/adapter holds the adapter" in text
    assert re.search(r"merged says '[^']*\d[^']*', the adapter", text)
    assert values(platform, "tuned", "loss")[-1] < 1.5  # it begins with 5.6
    record(platform, "tuned", *PACKAGES, example="post-training")


def test_preferences_are_learnt(platform: Cluster) -> None:
    platform.apply(example("dpo", "preferred"))
    platform.wait_for_condition("preferred", "Complete", within=LEARNED)
    first, last = ends(values(platform, "preferred", "rewards/accuracies"))
    assert (last > first, last > 0.9) == (True, True)
    record(platform, "preferred", *PACKAGES, example="post-training")


def test_a_function_of_the_jobs_own_rewards(platform: Cluster) -> None:
    platform.apply(example("grpo", "rewarded"))
    platform.wait_for_condition("rewarded", "Complete", within=LEARNED)
    first, last = ends(values(platform, "rewarded", "reward"))
    assert last > first + 0.05
    record(platform, "rewarded", *PACKAGES, example="post-training")


@pytest.mark.parametrize(
    ("name", "setting", "code", "says"),
    [
        (
            "misspelt",
            "lerning_rate=1",
            2,
            "InvalidArgument: lerning_rate: sft has no such setting; did you mean learning_rate?",
        ),
        (
            "mistaken",
            "dataset=/tmp/tiny/grpo",
            42,
            "InvalidDataset: /tmp/tiny/grpo: sft needs the columns prompt and completion or messages or "
            "text; it has prompt",
        ),
        (
            "mistargeted",
            "lora_target_modules=q_prj",
            42,
            "InvalidModel: the model has no module q_prj for LoRA; did you mean q_proj?",
        ),
    ],
)
def test_what_can_never_train_fails_at_once_and_says_why(
    platform: Cluster, name: str, setting: str, code: int, says: str
) -> None:
    platform.apply(example("sft", name, setting))
    failed = platform.wait_for_condition(name, "Failed", within=LEARNED)
    assert failed["reason"] == "FailJobSetFailurePolicyAction"
    assert says in failed["message"]
    assert f"exit code {code}" in failed["message"]
    assert (platform.get("jobset", name) or {})["status"].get("restarts", 0) == 0
