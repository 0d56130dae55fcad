"""Methods compared on recorded results."""
