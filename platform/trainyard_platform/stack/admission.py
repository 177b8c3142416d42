"""Settings of the webhooks."""

from trainyard_api.strict import StrictModel


class Admission(StrictModel):
    """The webhooks that check TrainJobs and runtimes before the API server stores them."""

    enabled: bool = True
    """Whether the stack installs the webhooks. If not, the API server stores invalid TrainJobs, and the
    operator reports them as Blocked."""
    policies: bool = True
    """Whether the cluster enforces the rules of `policies` on TrainJobs and runtimes. Needs `enabled`."""

    @property
    def holds_rules(self) -> bool:
        """Whether the cluster enforces the rules."""
        return self.enabled and self.policies
