"""Settings of the webhooks."""

from trainyard_api.strict import StrictModel


class Admission(StrictModel):
    """The webhooks that check TrainJobs and runtimes before they are stored."""

    enabled: bool = True
    """False installs no webhooks: mistakes then show as a Blocked TrainJob instead of a refusal."""
    policies: bool = True
    """Whether the cluster itself holds TrainJobs and runtimes to the rules of `policies`; needs webhooks."""

    @property
    def holds_rules(self) -> bool:
        """Whether the cluster enforces the rules."""
        return self.enabled and self.policies
