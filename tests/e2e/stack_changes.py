"""Changes of a platform as pull requests bring them, drawn at random; none is meant to stop a job.

Each changes the section `trainyard:platform` of a stack file in place, and says what it did.
"""

from collections.abc import Callable
from random import Random

from tests.support.cluster import Object

Change = Callable[[Object, Random], str]

TEAMS = ("team-a", "team-b")
RUNTIMES = (
    "plain",
    "torch-distributed",
    "torch-elastic",
    "jax-distributed",
    "xgboost-distributed",
    "mpi-distributed",
)
CONTROLLERS = ("operator", "kueue", "jobset", "volcano", "coscheduling")
PEOPLE = ("ada", "bob", "cem", "dan")


def _environment_of_a_runtime(platform: Object, draw: Random) -> str:
    name, value = draw.choice(RUNTIMES), str(draw.randrange(10_000))
    platform["runtimes"].setdefault(name, {})["env"] = {"CHANGED": value}
    return f"runtimes.{name}.env: CHANGED={value}"


def _resources_of_a_runtime(platform: Object, draw: Random) -> str:
    name, cpu = draw.choice(RUNTIMES), f"{draw.randrange(10, 50)}m"
    platform["runtimes"].setdefault(name, {})["resources"] = {"cpu": cpu}
    return f"runtimes.{name}.resources: cpu={cpu}"


def _nodes_of_a_runtime(platform: Object, draw: Random) -> str:
    name, selector = draw.choice(RUNTIMES), draw.choice(({}, {"kubernetes.io/os": "linux"}))
    platform["runtimes"].setdefault(name, {})["nodeSelector"] = selector
    return f"runtimes.{name}.nodeSelector: {selector}"


def _quota(platform: Object, draw: Random) -> str:
    """More, less, and less than what runs has: then nothing new starts."""
    team, cpu = draw.choice(TEAMS), draw.choice(("20m", "500m", "2", "4", "8"))
    [group] = platform["queues"]["clusterQueues"][team]["resourceGroups"]
    group["flavors"][0]["resources"]["cpu"]["nominal"] = cpu
    return f"queues.clusterQueues.{team}: cpu={cpu}"


def _order_of_a_queue(platform: Object, draw: Random) -> str:
    team, strategy = draw.choice(TEAMS), draw.choice(("StrictFIFO", "BestEffortFIFO"))
    platform["queues"]["clusterQueues"][team]["queueingStrategy"] = strategy
    return f"queues.clusterQueues.{team}.queueingStrategy: {strategy}"


def _another_flavor(platform: Object, draw: Random) -> str:
    flavors = platform["queues"]["flavors"]
    if "spare" in flavors:
        del flavors["spare"]
        return "queues.flavors: without spare"
    flavors["spare"] = {"nodeLabels": {"kubernetes.io/arch": draw.choice(("amd64", "arm64"))}}
    return "queues.flavors: with spare"


def _priority(platform: Object, draw: Random) -> str:
    name, value = draw.choice(("low", "high", "middle")), draw.randrange(-500, 500)
    platform["queues"]["priorities"][name] = {"value": value, "description": f"Worth {value}."}
    return f"queues.priorities.{name}: {value}"


def _another_tenant(platform: Object, _: Random) -> str:
    if "team-x" in platform["tenants"]:
        del platform["tenants"]["team-x"]
        return "tenants: without team-x"
    platform["tenants"]["team-x"] = {"clusterQueue": TEAMS[0]}
    return "tenants: with team-x"


def _people_of_a_tenant(platform: Object, draw: Random) -> str:
    team, people = draw.choice(TEAMS), sorted(draw.sample(PEOPLE, draw.randint(1, len(PEOPLE))))
    platform["tenants"][team]["dataScientists"] = [{"kind": "User", "name": name} for name in people]
    return f"tenants.{team}.dataScientists: {', '.join(people)}"


def _labels_of_a_tenant(platform: Object, draw: Random) -> str:
    team, center = draw.choice(TEAMS), str(draw.randrange(1000))
    platform["tenants"][team]["labels"] = {"example.com/cost-center": center}
    return f"tenants.{team}.labels: cost-center={center}"


def _resources_of_a_controller(platform: Object, draw: Random) -> str:
    """Rolls it out anew."""
    part, cpu = draw.choice(CONTROLLERS), f"{draw.randrange(20, 60)}m"
    platform[part]["resources"] = {**platform[part].get("resources", {}), "cpu": cpu}
    return f"{part}.resources: cpu={cpu}"


def _limits_of_jobs(platform: Object, draw: Random) -> str:
    nodes = draw.choice((1, 64, 1024))
    platform["operator"]["limits"] = {"maxNodes": nodes}
    return f"operator.limits.maxNodes: {nodes}"


def _pool(platform: Object, draw: Random) -> str:
    nodes = draw.choice((4, 8))
    platform["nodePools"]["gpu"]["nodes"] = nodes
    return f"nodePools.gpu.nodes: {nodes}"


def _largest_job_by_policy(platform: Object, draw: Random) -> str:
    nodes = draw.choice((64, 512, 1024))
    platform.setdefault("policies", {}).setdefault("parameters", {})["maxNodes"] = nodes
    return f"policies.parameters.maxNodes: {nodes}"


def _fair_sharing(platform: Object, _: Random) -> str:
    """Kueue restarts with another configuration."""
    platform["kueue"]["fairSharing"] = not platform["kueue"].get("fairSharing", False)
    return f"kueue.fairSharing: {platform['kueue']['fairSharing']}"


CHANGES: tuple[Change, ...] = (
    _environment_of_a_runtime,
    _resources_of_a_runtime,
    _nodes_of_a_runtime,
    _quota,
    _order_of_a_queue,
    _another_flavor,
    _priority,
    _another_tenant,
    _people_of_a_tenant,
    _labels_of_a_tenant,
    _resources_of_a_controller,
    _limits_of_jobs,
    _pool,
    _largest_job_by_policy,
    _fair_sharing,
)


def change(platform: Object, draw: Random) -> str:
    """Change a platform in one way."""
    return draw.choice(CHANGES)(platform, draw)
