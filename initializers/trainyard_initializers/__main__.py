"""`python -m trainyard_initializers`."""

import sys

from .main import main

sys.exit(main())
