"""The program of `pulumi up`: Trainyard's, for the stacks of this repository."""

from trainyard_platform import program

program.run()
