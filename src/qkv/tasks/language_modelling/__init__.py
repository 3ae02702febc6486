"""Language modelling: predict the next token."""
