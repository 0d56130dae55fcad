"""The command line."""

import time

began = time.time() - time.process_time()
"""When the command began: the budget of a fit counts from here, before Python and libraries were loaded."""
