"""Classification: one or several labels, or a number, for each text, picture or row."""
