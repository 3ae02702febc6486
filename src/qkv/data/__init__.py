"""From files to token streams and examples: readers, splits, the cache, the catalog; torch is not imported."""
