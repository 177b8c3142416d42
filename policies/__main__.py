"""The policy pack: `pulumi preview --policy-pack policies` runs the rules over what the program registers."""

from trainyard_policies import pack

pack.serve()
