"""Work that runs many trainings or checks."""
