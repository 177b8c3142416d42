"""Turns jobs of older APIs into TrainJobs of Trainer v2.3, and reports what could not be carried over.

`convert.migrate` takes documents and returns documents with notes; each kind
of source has a module. Values in, values out: it knows no cluster and no file.
"""
