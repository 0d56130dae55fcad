"""PMF: probabilistic matrix factorisation over pipelines."""
