"""Reports: one file per format, and the folder they live in."""
