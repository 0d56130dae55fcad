"""Parts of pipelines that scikit-learn does not have, in its conventions.

Each class stands alone: it uses NumPy, pandas, scikit-learn and the library it wraps, and nothing else of Headstart,
so that its source can be copied into an exported script.
"""
