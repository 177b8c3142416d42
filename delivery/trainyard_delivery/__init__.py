"""The effects of a change of a stack, and whether its cluster matches git: pure.

`pulumi up` runs nothing of it. `drift` compares the cluster with git, `rollout`
and `replacements` say what a preview or an update does, `impact` which TrainJobs
it affects; `plain_manifests` makes a stack's plain YAML, and `stack_names` says
which stacks a change in git touches.
"""
