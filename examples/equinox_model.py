"""A network written with Equinox, trained by lossgap. Anything with an `init` and an `apply` works the same way."""

import equinox as eqx
import jax

import lossgap as lg

WIDTH, DEPTH = 32, 2


def network(key: jax.Array, inputs: int, outputs: int) -> eqx.nn.MLP:
    return eqx.nn.MLP(inputs, outputs, WIDTH, DEPTH, key=key)


# Three lines make it a model: its arrays are the parameters, the rest of it stands still.
_, skeleton = eqx.partition(network(jax.random.key(0), 64, 10), eqx.is_array)
model = lg.Model(
    init=lambda key, x, outputs: eqx.filter(network(key, x[0].size, outputs), eqx.is_array),
    apply=lambda params, x: jax.vmap(eqx.combine(params, skeleton))(x.reshape(len(x), -1)),
    name="equinox mlp",
)


def main() -> lg.Result:
    federation = lg.datasets.digits(clients=5, alpha=0.3, seed=0)
    training = lg.Training(rounds=100, step_size=0.2, local_epochs=1, batch_size=32)
    result = lg.train(federation, model, lg.Eagle(gap_penalty=0.5), training)
    print(result)
    return result


if __name__ == "__main__":
    main()
