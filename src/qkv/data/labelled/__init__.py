"""Labelled data: from people's files to typed examples, a label map, findings and splits."""
