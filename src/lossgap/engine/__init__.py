"""One round, the compiled run, and a plain sequential twin that tests compare it with."""

from lossgap.engine.cache import keep_programs
from lossgap.engine.devices import one_per_core, small_loops_as_one

keep_programs()
one_per_core()
small_loops_as_one()
