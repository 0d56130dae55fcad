"""Small networks: trained with torch (extra ``neural``), used with NumPy alone.

The parameters of a network are a mapping from names to NumPy arrays. `networks` and `set_networks` describe
architectures; the same code carries NumPy arrays and torch tensors through them, so what was trained with torch
predicts without it. `training` is the one place where gradients come from torch; `likelihoods` are what surrogates are
trained by; `batches` draws tasks and pipelines from a meta-dataset; `checkpoints` writes parameters to a file.
"""
