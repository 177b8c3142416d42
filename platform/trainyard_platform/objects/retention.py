"""What outlives `pulumi destroy`, and how the next `pulumi up` adopts it.

CRDs hold the users' TrainJobs and JobSets, and a shared namespace holds what
others put there: such objects stay in the cluster when the stack is removed.
The next `up` creates them by server-side apply, which updates an existing
object: same object, same uid, everything in it untouched. The pinned version
of the provider always applies; from 4.29 on, creating an existing object fails
without `upsert_existing_objects`.

The field manager has a fixed name, because Pulumi's own is random for each
create and would conflict with what the last one left behind; and the apply is
forced, because it replaces the client that installed the CRDs before (kubectl, Helm)
on purpose. `annotations.KEPT` sets both.
"""

from collections.abc import Sequence

import pulumi


def options(parent: pulumi.Resource, after: Sequence[pulumi.Resource] = ()) -> pulumi.ResourceOptions:
    """Options of a child that stays in the cluster when it leaves the stack."""
    return pulumi.ResourceOptions(parent=parent, depends_on=list(after), retain_on_delete=True)
