"""What outlives `pulumi destroy`, and how the next `pulumi up` takes it back.

CRDs hold the users' TrainJobs and JobSets, and a shared namespace holds what
others put there: such objects stay in the cluster when the stack goes. The
next `up` creates them again by server-side apply, which on an object that
exists is an update: same object, same uid, everything in it untouched. The
provider of the pinned version always applies; from 4.29 on creating an
existing object fails unless it is told `upsert_existing_objects`.

The field manager has a fixed name, because Pulumi's own is drawn anew with
each create and would then conflict with what the last one left behind; and
the apply is forced, because whoever installed the CRDs before (kubectl, Helm)
is replaced here on purpose. `annotations.KEPT` says both.
"""

import pulumi


def options(parent: pulumi.Resource, after: list[pulumi.Resource]) -> pulumi.ResourceOptions:
    """Options of a child that stays in the cluster when it leaves the stack."""
    return pulumi.ResourceOptions(parent=parent, depends_on=list(after), retain_on_delete=True)
