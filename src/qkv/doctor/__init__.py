"""The doctor: baselines to compare a loss with, a diagnosis of a run, and what to try next."""
