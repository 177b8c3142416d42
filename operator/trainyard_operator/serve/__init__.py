"""What others ask: webhooks, reports of progress, probes, and the certificates for them."""
