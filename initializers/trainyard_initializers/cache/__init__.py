"""`cache://schema/table`: starts a cache of a table for the job, and waits until it can be read.

Nothing is fetched: the trainers read rows over the network from `<TrainJob>-cache-service:50051`.
The variables are those of Kubeflow Trainer's initializer.
"""
