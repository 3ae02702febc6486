"""Files, folders and archives: lists, unpacks and decodes them."""
