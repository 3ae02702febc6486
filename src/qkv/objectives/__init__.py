"""What to learn: batches, loss and metrics."""
