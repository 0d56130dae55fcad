"""What all tests share."""

import signal
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE / "space")]  # tests share `fakes` and `strategies`

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell has its background jobs ignore it
