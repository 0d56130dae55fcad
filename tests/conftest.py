"""What all tests share."""

import os
import signal
import sys
from pathlib import Path

from hypothesis import HealthCheck, settings

settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")  # time decides no test

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE / "space")]  # tests share `fakes` and `strategies`
sys.path.append(str(HERE.parent / "benchmarks"))  # where one imports another

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell has its background jobs ignore it

# Test processes side by side share the cores among them; set before numeric libraries are loaded.
_processes = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
if _processes > 1:
    for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(_variable, str(max(1, (os.cpu_count() or 1) // _processes)))
