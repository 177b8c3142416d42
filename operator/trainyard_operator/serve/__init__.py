"""What others call: webhooks, reports of progress, probes, and the certificates for them."""
