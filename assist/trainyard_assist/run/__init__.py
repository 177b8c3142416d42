"""From a command and a few settings to a TrainJob, and what to say before it is sent.

Called by `trainyard run` and `trainyard clone`, which read the files and ask the
cluster. What is made is a plain TrainJob of Trainer's API. Pure.
"""
