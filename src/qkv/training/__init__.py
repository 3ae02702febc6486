"""The loop, optimizers, schedules, checkpoints and devices."""
