"""Post-train a language model with TRL: SFT, DPO and GRPO, by settings and without a script."""
