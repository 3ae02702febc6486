"""Training objectives: how batches are drawn, and the loss of a batch."""
