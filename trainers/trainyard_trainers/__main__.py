"""`python -m trainyard_trainers`."""

import sys

from .main import main

sys.exit(main())
