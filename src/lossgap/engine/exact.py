"""The minimum of a convex loss over one client's rows, with a certificate."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.flatten_util import ravel_pytree

from lossgap.engine.alone import Found
from lossgap.federation import Federation, Split
from lossgap.models import Model, Params
from lossgap.progress import progress_bar

GRADIENT_NORM = 1e-6
MOST_ITERATIONS = 10_000


def minimise_alone(
    federation: Federation, model: Model, start: Params, *, precision: str, progress: bool | None
) -> list[Found]:
    """Each client's best model on its training rows."""
    found = []
    with progress_bar("solo models", len(federation.clients), shown=progress) as report, jax.enable_x64(True):
        for client in federation.clients:
            found.append(_minimum(model, start, client.train, federation.classes, precision))
            report(len(found))
    return found


def _minimum(model: Model, start: Params, rows: Split, classes: int | None, precision: str) -> Found:
    """L-BFGS in double precision until ‖∇L‖ ≤ 1e-6: for a convex loss, L(θ) − inf L ≤ ‖∇L(θ)‖ ‖θ − θ*‖."""
    from scipy.optimize import minimize  # imported late: only this needs it

    flat, unravel = ravel_pytree(jax.tree.map(lambda p: jnp.asarray(p, jnp.float64), start))
    x, y = jnp.asarray(rows.x, jnp.float64), jnp.asarray(rows.y, jnp.int32 if classes else jnp.float64)

    def loss_and_gradient(point: np.ndarray) -> tuple[float, np.ndarray]:
        loss, gradient = _loss_and_gradient(model, unravel(jnp.asarray(point)), x, y)
        return float(loss), np.asarray(ravel_pytree(gradient)[0])

    # SciPy bounds the largest entry of the gradient, the certificate its norm.
    options = {"maxiter": MOST_ITERATIONS, "maxfun": 2 * MOST_ITERATIONS, "maxcor": 30, "ftol": 0.0}
    options["gtol"] = GRADIENT_NORM / np.sqrt(flat.size)
    minimum = minimize(loss_and_gradient, np.asarray(flat), jac=True, method="L-BFGS-B", options=options)
    params, norm = unravel(jnp.asarray(minimum.x)), float(np.linalg.norm(minimum.jac))
    attained = not (classes and _goes_on_for_ever(model, params, x, rows.y, classes))
    kept = jax.tree.map(lambda p: np.asarray(p, precision), params)
    return Found(kept, int(minimum.nit), norm <= GRADIENT_NORM, norm, attained)


@partial(jax.jit, static_argnums=0)
def _loss_and_gradient(model: Model, params: Params, x: Array, y: Array) -> tuple[Array, Params]:
    share = jnp.full(len(x), 1 / len(x))
    return jax.value_and_grad(model.batch_loss)(params, x, y, share)


def _goes_on_for_ever(model: Model, params: Params, x: Array, y: np.ndarray, classes: int) -> bool:
    """Whether the loss can always be lowered: by scaling θ up, or by never predicting a class that is absent."""
    predicted = np.asarray(model.outputs(params, x)).argmax(axis=-1)
    return bool((predicted == y).all()) or len(np.unique(y)) < classes
