"""Builds tools of the toolchain that tests need and a sandbox does not: free when they are there.

Run as `python -m tests.harness.tools NAME...`.
"""

import sys

from trainyard_sandbox.progress import Progress
from trainyard_sandbox.toolchain import Toolchain

if __name__ == "__main__":
    with Progress() as progress:
        Toolchain(sys.argv[1:]).build(progress)
