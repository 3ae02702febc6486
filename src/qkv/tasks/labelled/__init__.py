"""What classification and tagging share: examples with labels."""
