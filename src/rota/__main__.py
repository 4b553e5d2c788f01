"""`python -m rota`: the same as the command `rota`."""

from rota.main import main

main()
