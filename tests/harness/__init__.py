"""The gate: what `make test`, `make e2e` and `make soak` run, in phases, and what is said at the end.

A cluster test that fails is looked at a second time, alone and on a sandbox
made anew. `phases` says what is run, `process` runs it, `results` reads what
pytest said of it, `verdict` judges and tells. The last two are pure.
"""
