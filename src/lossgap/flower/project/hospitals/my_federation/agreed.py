"""What the four hospitals have agreed on. Everybody runs the same copy: it travels from the server with each run."""

import lossgap as lg

SITES = ("cleveland", "hungarian", "switzerland", "va")
"""The names that the operator registers the sites' keys under."""

FEATURES = {f"feature {number}": (0.0, 1.0) for number in range(15)}
"""Columns of every hospital's table, as `lossgap.datasets.heart` prepares them: the rehearsal writes them, so that its
table can be compared with the simulator's."""

TARGET = "disease"
CLASSES = ("healthy", "ill")

MODEL = lg.models.linear()

# A round costs some five seconds of traffic whatever the work, so that many local steps in each are nearly free.
TRAINING = lg.Training(step_size=0.1, local_steps=10)

# The range bounds what exaggerating a loss can bring: nobody counts more than three times as much as another.
METHOD = lg.Eagle(gap_penalty=1.0, normalize="sqrt-k", multiplier_range=(0.5, 1.5))

SOLO = "best"
"""A site's best loss alone is that of its best round; "converged" takes the last one, which flatters joining."""

SOLO_ROUNDS = 300
"""The most rounds of local work in which a hospital finds its best loss alone."""

SEED = 0
