"""The program of `pulumi up`, of a clone; that of another site is the same."""

from trainyard_platform import program

program.run()
