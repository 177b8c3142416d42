"""Jobs of older APIs become TrainJobs of Trainer v2.3; what could not be carried over is said.

`convert.migrate` takes documents and returns documents with notes; one module
a kind of source. Values in, values out: it knows no cluster and no file.
"""
