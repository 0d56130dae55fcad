"""Array-level cores of Bayesian optimisation: NumPy in, NumPy out, nothing known of pipelines.

`gaussian_process` is exact Gaussian-process regression, built from `kernels`, `cholesky`, `hyperparameters` and
`marginal_likelihood`; `forest` is the random-forest alternative; `expected_improvement` turns the mean and standard
deviation of either into a score.
"""
