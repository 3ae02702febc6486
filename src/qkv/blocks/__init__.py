"""The bricks: layers that map (B, T, D) to (B, T, D), usable alone. Torch only."""
