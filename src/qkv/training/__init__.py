"""Training: the loop, optimizers, schedules, checkpoints, logs and devices."""
