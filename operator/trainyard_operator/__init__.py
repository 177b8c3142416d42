"""The Trainyard operator: turns TrainJobs into JobSets.

The core (`model`, `reconcile`, `framework`, `plugins`, `revisions`, `render`,
`validation`, and what these call) is values in, values out; everything that
talks to the API server lies around it (`handlers`, `informer`, `queue`,
`cache`, `apply`, `client`, `main`).
"""
