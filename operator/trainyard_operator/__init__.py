"""The Trainyard operator: turns TrainJobs into JobSets.

`core` is values in, values out; everything that talks to the API server lies
above it: `watch` keeps what the cluster says, `work` reconciles, and `serve`
answers others.
"""
