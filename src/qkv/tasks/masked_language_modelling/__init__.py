"""Masked language modelling: predict hidden tokens, and whether a passage follows another (BERT)."""
