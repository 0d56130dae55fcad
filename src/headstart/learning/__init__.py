"""What every learner shares: the contract, one training loop, checkpoints."""
