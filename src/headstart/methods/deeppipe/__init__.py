"""DeepPipe: deep pipeline embeddings in a Gaussian process (Pineda Arango & Grabocka 2023)."""

from headstart.methods.deeppipe.surrogate import DeepPipe, with_memory

__all__ = ["DeepPipe", "with_memory"]
