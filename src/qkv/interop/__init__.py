"""Other projects' formats: name tables, both ways. One file per architecture; tensors and plain values only."""
