"""Readers of the files people bring, splits and the token cache. No torch."""
