"""From a table to a model: plan, search, ensemble.

===============  ==========================================================================================
`settings`       what a user may choose
`plan`           what follows from the table's size and the budget: splits, jobs, limits
`run`            search, then ensemble, within the budget
`candidates`     the trials that a model may be made of, and their files
`model`          what predicts
`decisions`      calibration of probabilities and thresholds between classes
`simple`         the model when time was too short for anything better
`progress`       what a run shows while it runs
`saving`         a model as a file (`container`) from which loading runs no code (`trusted`)
`export`         a pipeline as a script (`sources`, `export_table`) that needs no Headstart
===============  ==========================================================================================
"""
