"""The command line."""

import time

began = time.time()
"""When the command began: the budget of a fit counts from here, before libraries are loaded."""
