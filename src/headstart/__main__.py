"""``python -m headstart`` is the command ``headstart``."""

from headstart.cli.main import main

main()
