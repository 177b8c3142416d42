"""The way to the API server: its client, the credentials, and the server's clock."""
