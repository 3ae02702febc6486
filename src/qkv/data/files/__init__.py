"""From the names that people give to the files of folders and archives: list them, unpack them, decode them."""
