"""Comparisons, searches, probes and proofs, which train or check models many times."""
