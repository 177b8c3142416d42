"""Secrets that are recognized by their form: parts of regular expressions.

Called by the rule `secrets-by-reference`, and by what removes secrets from text.
"""

from typing import Final

TOKENS: Final = (
    r"hf_[A-Za-z0-9]{30,}|(?:AKIA|ASIA)[A-Z0-9]{16}|gh[pousr]_[A-Za-z0-9]{36}|github_pat_\w{22,}"
    r"|glpat-[\w-]{20}|xox[abprs]-[\w-]{10,}|sk-[A-Za-z0-9_-]{32,}"
)
"""Tokens of Hugging Face, AWS, GitHub, GitLab, Slack and OpenAI; each begins at a word boundary."""
PRIVATE_KEY: Final = "-----BEGIN [A-Z ]*PRIVATE KEY-----"
"""The first line of a private key."""
