"""From the files people bring to token streams: readers, splits, the cache, the catalog. Knows no torch."""
