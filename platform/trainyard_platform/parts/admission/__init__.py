"""The webhooks that check TrainJobs and runtimes."""
