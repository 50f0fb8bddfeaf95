"""One round, the compiled run, and a plain sequential twin that tests compare it with."""

from lossgap.engine.cache import keep_programs

keep_programs()
