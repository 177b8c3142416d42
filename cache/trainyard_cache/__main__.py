"""`python -m trainyard_cache`."""

import sys

from .main import main

sys.exit(main())
