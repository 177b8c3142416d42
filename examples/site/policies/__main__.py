"""The policy pack of `trainyard preview` and `up`: Trainyard's rules, and those in the folder `site`."""

from pathlib import Path

from trainyard_policies import site

# Before the rules are imported, which takes in what is there.
site.__path__.insert(0, str(Path(__file__).with_name("site")))

from trainyard_policies import pack  # noqa: E402

pack.serve()
