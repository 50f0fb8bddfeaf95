"""Rows of your own, from one table: which hospital gains by joining?"""

import numpy as np
import pandas as pd

import lossgap as lg


def patients() -> pd.DataFrame:
    """Made-up patients of three hospitals; one of them measures with noise."""
    rng = np.random.default_rng(0)
    hospital = rng.choice(["lyon", "lille", "nantes"], 900, p=[0.6, 0.3, 0.1])
    age, pressure = rng.normal(60, 12, 900), rng.normal(130, 15, 900)
    risk = 0.05 * (age - 60) + 0.04 * (pressure - 130) + rng.normal(0, np.where(hospital == "lille", 2.0, 0.5))
    smokes = rng.choice(["yes", "no", None], 900)
    return pd.DataFrame({"hospital": hospital, "age": age, "pressure": pressure, "smokes": smokes, "disease": risk > 0})


def main() -> lg.Result:
    federation = lg.Federation.from_table(patients(), client="hospital", target="disease", seed=0)
    training = lg.Training(rounds=500, step_size=0.5)
    solo = lg.train_solo(federation, lg.models.linear(), training, stop="best")
    result = lg.train(federation, lg.models.linear(), lg.Eagle(gap_penalty=1.0), training, solo=solo)
    print(result)
    return result


if __name__ == "__main__":
    main()
