"""Pods of a JobSet as both controllers build them."""


def node_pod(jobset, name="node"):
    (job,) = [job for job in jobset["spec"]["replicatedJobs"] if job["name"] == name]
    return job["template"]["spec"]["template"]["spec"]


def variables(jobset, name="node"):
    return {one["name"]: one.get("value") for one in node_pod(jobset, name)["containers"][0]["env"]}
