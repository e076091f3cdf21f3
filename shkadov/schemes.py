"""The discretised equations of the film, their factors, and the layout of a film in memory.

Shkadov (1967), as in Viquerat & Hachem (2023):

    h_t = -q_x
    q_t = -(6/5) (q^2/h)_x + [h (1 + h_xxx) - q/h^2] / (5 delta) + jets

* q_x and (q^2/h)_x: first-order upwind plus a minmod-limited correction,
  u_x|_i = (F_i - F_{i-1}) / dx,  F_i = u_i + 1/2 minmod(u_i - u_{i-1}, u_{i+1} - u_i).
* h_xxx: centred second derivative, then a second-order forward difference. At the last two moving
  nodes the one-sided first-order forms, which is the same as extrapolating h past the outlet by
  the cubic through its last four nodes; so one stencil serves every node.
* time: second-order Adams-Bashforth, u_new = u + dt (3/2 f - 1/2 f_old). Kept beside u is
  base = u - dt/2 f_old, so that u_new = base + 3/2 dt f and base_new = u_new - 1/2 dt f.
  The first step of a film without history is Euler's.

Layout. The moving nodes 1 .. n_nodes-2 are cut into LANES equal stretches, and one vector holds the
nodes at the same place of every stretch. A node's neighbours are then in the rows before and
after, in the same lane: no vector straddles, and each is loaded once per step. Two rows before and
three rows after the nodes repeat the ends of the adjacent stretches; there also lie the inlet, the
outlet and the ghosts of the extrapolation. A film is an array (n_rows, FIELDS, LANES). numba
compiles the constants below into the solver.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from shkadov.params import FilmParams
from shkadov.simd import LANES

Float64Array = NDArray[np.float64]
Int64Array = NDArray[np.int64]

# Fields of a row, and of a start state.
H: Final = 0
Q: Final = 1
BASE_H: Final = 2
BASE_Q: Final = 3
FIELDS: Final = 4
ROW: Final = FIELDS * LANES  # numbers in a row
FRONT: Final = 2  # rows before the first moving node
BACK: Final = 3  # rows after the last one

# Factors of a step, one vector each, scaled so that rates come out as what a step adds to `base`.
HALF: Final = 0  # 1/2
ROOT: Final = (
    1  # k = sqrt(PULL): a division gives r = k / h, then k q^2/h = q q r, k^2 q/h^2 = q r r
)
FLUX_H: Final = 2  # g dt / dx, with g = 3/2, or 1 for Euler
FADE_FLUX_H: Final = 3  # FADE times that
FLUX_Q: Final = 4  # (6/5) g dt / dx / k
FADE: Final = 5  # part of a rate that the next base leaves out: dt/2 f over g dt f
PULL: Final = 6  # g dt / (5 delta)
THIRD: Final = 7  # PULL / (2 dx^3)
THIRD_3: Final = 8  # three times that
FACTORS: Final = 9
WARM: Final = 0  # row of the Adams-Bashforth factors
COLD: Final = 1  # row of Euler's


def count_lane_rows(n_nodes: int) -> int:
    """Return the number of moving nodes in a lane, the last lane filled up with idle ones."""
    return -(-(n_nodes - 2) // LANES)


def count_rows(n_nodes: int) -> int:
    """Return the number of rows of a film."""
    return FRONT + count_lane_rows(n_nodes) + BACK


def place_nodes(n_nodes: int) -> Int64Array:
    """Return where every node's h stands in a film's flat array, (n_nodes,)."""
    lane_rows = count_lane_rows(n_nodes)
    moving = np.arange(n_nodes, dtype=np.int64) - 1
    # The inlet keeps its place before lane 0, the outlet after the last moving node in the last.
    lane = np.clip(moving // lane_rows, 0, LANES - 1)
    return (FRONT + moving - lane * lane_rows) * ROW + H * LANES + lane


def make_factors(film: FilmParams) -> Float64Array:
    """Return the factors of a step, (2, FACTORS, LANES): Adams-Bashforth's and Euler's."""
    factors = np.empty((2, FACTORS))
    for row, gain in ((WARM, 1.5), (COLD, 1.0)):
        pull = gain * film.dt / (5.0 * film.delta)
        flux, fade = gain * film.dt / film.dx, 0.5 / gain
        third = pull / (2.0 * film.dx**3)
        root = float(np.sqrt(pull))
        factors[row] = (
            0.5, root, flux, fade * flux, 1.2 * flux / root, fade, pull, third, 3.0 * third,
        )  # fmt: skip
    return aligned(np.repeat(factors[:, :, None], LANES, axis=2))


def make_jet_shape(film: FilmParams) -> Float64Array:
    """Return dt times the q_t of one jet at u = 1, on the nodes around its centre.

    dq(x) = sign A 4 (x - x_l)(x_r - x) / (x_r - x_l)^2 between x_l and x_r
    """
    half = int(0.5 * film.jet_width / film.dx + 1e-9)
    s = np.arange(-half, half + 1) * film.dx
    shape = 4.0 * (0.5 * film.jet_width + s) * (0.5 * film.jet_width - s) / film.jet_width**2
    return film.dt * film.jet_sign * film.jet_amplitude * np.maximum(shape, 0.0)


def place_jets(film: FilmParams) -> tuple[Int64Array, Float64Array]:
    """Return the rows each jet pushes (n_jets * n_pushed,), and its shape there, flat as well.

    Where the film is cut into lanes, a jet may lie in two lanes and so in rows far apart.
    """
    place, shape = place_nodes(film.n_nodes), make_jet_shape(film)
    offsets = np.arange(shape.size) - shape.size // 2
    touched = shape != 0.0
    n_pushed = int(touched.sum())
    rows = np.empty((film.n_jets, n_pushed), dtype=np.int64)
    shapes = np.zeros((film.n_jets, n_pushed, LANES))
    for j, x in enumerate(film.jet_positions):
        places = place[round(x / film.dx) + offsets[touched]]
        rows[j] = places // ROW * ROW
        shapes[j, np.arange(n_pushed), places % LANES] = shape[touched]
    return rows.reshape(-1), aligned(shapes.reshape(-1))


def pack(nodes: Float64Array, n_nodes: int) -> Float64Array:
    """Lay films (..., FIELDS, n_nodes) out as (..., n_rows, FIELDS, LANES), idle nodes at 1."""
    films = np.ones((*nodes.shape[:-2], count_rows(n_nodes) * ROW))
    place = place_nodes(n_nodes)
    for field in range(FIELDS):
        films[..., place + field * LANES] = nodes[..., field, :]
    return aligned(films.reshape(*nodes.shape[:-2], -1, FIELDS, LANES))


def unpack(films: Float64Array, n_nodes: int) -> Float64Array:
    """Return the fields node by node, (..., FIELDS, n_nodes), of films as `pack` lays them out."""
    flat = films.reshape(*films.shape[:-3], -1)
    place = place_nodes(n_nodes) + np.arange(FIELDS)[:, None] * LANES
    nodes: Float64Array = flat[..., place]
    return nodes


def aligned(array: Float64Array) -> Float64Array:
    """Return a copy that begins on a cache line: no vector of a film then lies across two."""
    room = np.empty(array.size + 8)
    skip = (-room.ctypes.data % 64) // 8
    copy = room[skip : skip + array.size].reshape(array.shape)
    copy[...] = array
    return copy
