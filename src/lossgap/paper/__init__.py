"""The paper's experiments: its published numbers, its settings, and our results beside them.

    from lossgap.paper import pieces, run

    (piece,) = pieces.named("linear-0.1")
    outcomes = [run.run(experiment) for experiment in piece.experiments("quick")]
    print(*piece.made(outcomes).claims, sep="\\n")

`published` holds the paper's numbers, `settings` what each experiment runs, `claims` what the paper says of them,
`pieces` every table and figure by name, `pages` writes them to files.
"""
