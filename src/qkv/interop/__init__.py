"""Other projects' formats: name tables, both ways."""
