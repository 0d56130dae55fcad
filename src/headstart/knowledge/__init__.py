"""What was learned from other tasks, in files: how it is written, loaded and used."""
