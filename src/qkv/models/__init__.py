"""One file, one architecture: a bill of materials, then its whole forward pass."""
