"""lossgap's EAGLE: gaps on the validation rows in every round, and all of it recorded.

With λ = 0 and multipliers of norm √K its parameters are FedAvg's, so that they can be checked like everybody else's; no
step of EAGLE is left out for that.
"""

import protocol
from run_lossgap import marginal, training_with

import lossgap as lg


def prepare(workload: protocol.Workload) -> protocol.Train:
    return training_with(workload, lg.Eagle(gap_penalty=0.0, normalize="sqrt-k"), record_every=1)


if __name__ == "__main__":
    protocol.main("lossgap_eagle", prepare, distributions=("lossgap", "jax"), timer=marginal)
