"""What the webhook lets in, and with which words it refuses."""
