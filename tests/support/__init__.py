"""What the tests of more than one folder share: clusters, a fake API server, objects, tables, patience.

What only one folder needs is in that folder. A test may import from here and
from its own folder (`tests/test_repository.py` holds it).
"""
