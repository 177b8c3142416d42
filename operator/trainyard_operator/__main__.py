"""The entrypoint of the operator's image: `python -m trainyard_operator`."""

import sys

from .main import run
from .settings import parse

sys.exit(run(parse()))
