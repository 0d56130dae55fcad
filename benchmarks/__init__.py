"""What the library takes and gives, measured; nothing here decides a test."""
