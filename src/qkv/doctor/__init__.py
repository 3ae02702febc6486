"""The doctor: what a loss can be compared with, what a run did, and what to try next."""
