"""The text of PDF, Word, web and other documents, extracted in a process of its own."""
