"""One round, the compiled run, and a plain sequential twin that tests compare it with."""

from lossgap.engine.cache import keep_programs
from lossgap.engine.devices import one_per_core

keep_programs()
one_per_core()
