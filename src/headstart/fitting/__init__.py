"""From a table to a model: plan, search, ensemble.

===============  ==========================================================================================
`settings`       what a user may choose
`plan`           what follows from the table's size and the budget: splits, jobs, limits
`run`            search within the budget
`assembly`       the model of what was found: ensemble, refit, decisions; a simple one if time was too short
`shelf`          fitted models of the best trials, as long as a run lives
`model`          what predicts
`decisions`      calibration of probabilities and thresholds between classes
`refit`          pipelines fitted once more, on all rows
`progress`       what a run shows while it runs
`summary`        how good a model is, in a few numbers
`reports`        leaderboard, failures, test scores, importance of columns
`saving`         a model as a file (`container`) that loads without running code (`trusted`, `packing`)
`export`         a pipeline as a script (`sources`, `export_table`) that needs no Headstart
`onnx_export`    a fitted model as an ONNX file (`onnx_trees`)
`serving`        predictions over HTTP
`conformal`      prediction intervals and sets
`explain`        contributions of columns to predictions
===============  ==========================================================================================
"""
