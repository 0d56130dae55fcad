"""DeepPipe: deep pipeline embeddings in a meta-learned Gaussian process."""
