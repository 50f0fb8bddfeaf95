"""One round, the compiled run, and a plain sequential twin that tests compare it with."""
