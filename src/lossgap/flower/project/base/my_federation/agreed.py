"""What all parties have agreed on. Everybody runs the same copy: it travels from the server with each run."""

import lossgap as lg

SITES = ("north", "south", "west")
"""The names that the operator registers the sites' keys under."""

FEATURES = {"x": (0.0, 1.0), "y": (0.0, 1.0)}
"""Columns of every site's table, each with the centre and the scale by which all sites standardise it. Take them from
common knowledge, such as age: (55, 10); means computed from everybody's rows would tell something of those rows."""

TARGET = "class"
CLASSES = ("a", "b")

MODEL = lg.models.linear()

# A round costs some five seconds of traffic whatever the work, so that many local steps in each are nearly free.
TRAINING = lg.Training(step_size=0.3, local_steps=10)

# The range bounds what exaggerating a loss can bring: nobody counts more than three times as much as another.
METHOD = lg.Eagle(gap_penalty=1.0, normalize="sqrt-k", multiplier_range=(0.5, 1.5))

SOLO = "best"
"""A site's best loss alone is that of its best round; "converged" takes the last one, which flatters joining."""

SOLO_ROUNDS = 300
"""The most rounds of local work in which a site finds its best loss alone."""

SEED = 0
