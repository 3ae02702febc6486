"""From the names that people give to text: discover the files, unpack them, decode them."""
