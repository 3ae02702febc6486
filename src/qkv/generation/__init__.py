"""Text generation: sampling and beam search."""
