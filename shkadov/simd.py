"""Four float64 numbers as one value inside numba-compiled code.

The film is advanced by a pass that keeps a node's neighbours in registers. LLVM does not find that
form by itself (it reloads every neighbour), so the pass is written with vectors in the open. On a
processor without 256-bit registers LLVM splits them: nothing here depends on the machine.
Sums of products may be contracted to fused multiply-adds; NaN and infinity are respected.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, Final

from llvmlite import ir  # type: ignore[import-untyped]
from numba.core import types
from numba.core.typing.templates import ConcreteTemplate, infer_global, signature
from numba.extending import intrinsic, lower_builtin, models, register_model

LANES: Final = 4
_VECTOR: Final = ir.VectorType(ir.DoubleType(), LANES)
_INDEX: Final = ir.IntType(32)
Generator = Callable[[Any, Any, Any, Any], Any]


class Float64x4(types.Type):
    """Name the type of a vector to numba's type inference."""

    def __init__(self) -> None:
        """Make the one instance there is."""
        super().__init__(name="float64x4")


float64x4: Final = Float64x4()


@register_model(Float64x4)
class _Model(models.PrimitiveModel):
    def __init__(self, dmm: Any, fe_type: Any) -> None:
        super().__init__(dmm, fe_type, _VECTOR)


def _define(python_operator: Callable[..., Any], instruction: str) -> None:
    class Template(ConcreteTemplate):
        cases = [signature(float64x4, float64x4, float64x4)]  # noqa: RUF012

    infer_global(python_operator)(Template)

    @lower_builtin(python_operator, float64x4, float64x4)
    def lower(context: Any, builder: Any, sig: Any, args: Any) -> Any:  # noqa: ARG001
        return getattr(builder, instruction)(*args, flags=("contract",))


_define(operator.add, "fadd")
_define(operator.sub, "fsub")
_define(operator.mul, "fmul")
_define(operator.truediv, "fdiv")


def _intrinsic(typing: Callable[..., Any]) -> Callable[..., Any]:
    # For type checkers: a call takes vectors and numbers, not the typing context.
    return intrinsic(typing)


def _lanes(*sources: int) -> Any:
    return ir.Constant(ir.VectorType(_INDEX, LANES), list(sources))


def _pointer(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    data = context.make_array(sig.args[0])(context, builder, args[0]).data
    return builder.bitcast(builder.gep(data, [args[1]]), _VECTOR.as_pointer())


@_intrinsic
def low(typing_context: Any, a: Any, b: Any) -> tuple[Any, Generator]:  # noqa: ARG001
    """Return a where a < b, else b."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:  # noqa: ARG001
        return builder.select(builder.fcmp_ordered("<", *args), *args)

    return float64x4(float64x4, float64x4), generate


@_intrinsic
def high(typing_context: Any, a: Any, b: Any) -> tuple[Any, Generator]:  # noqa: ARG001
    """Return a where a > b, else b."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:  # noqa: ARG001
        return builder.select(builder.fcmp_ordered(">", *args), *args)

    return float64x4(float64x4, float64x4), generate


@_intrinsic
def splat(typing_context: Any, x: Any) -> tuple[Any, Generator]:  # noqa: ARG001
    """Return a vector with x in every lane."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:  # noqa: ARG001
        nothing = ir.Constant(_VECTOR, ir.Undefined)
        first = builder.insert_element(nothing, args[0], ir.Constant(_INDEX, 0))
        return builder.shuffle_vector(first, nothing, _lanes(0, 0, 0, 0))

    return float64x4(types.float64), generate


@_intrinsic
def lane(typing_context: Any, v: Any, index: Any) -> tuple[Any, Generator]:  # noqa: ARG001
    """Return the number in one lane of v."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:  # noqa: ARG001
        return builder.extract_element(args[0], builder.trunc(args[1], _INDEX))

    return types.float64(float64x4, types.intp), generate


@_intrinsic
def from_left(typing_context: Any, v: Any, x: Any) -> tuple[Any, Generator]:  # noqa: ARG001
    """Return (x, v[0], v[1], v[2])."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:  # noqa: ARG001
        moved = builder.shuffle_vector(args[0], args[0], _lanes(0, 0, 1, 2))
        return builder.insert_element(moved, args[1], ir.Constant(_INDEX, 0))

    return float64x4(float64x4, types.float64), generate


@_intrinsic
def from_right(typing_context: Any, v: Any) -> tuple[Any, Generator]:  # noqa: ARG001
    """Return (v[1], v[2], v[3], v[3])."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:  # noqa: ARG001
        return builder.shuffle_vector(args[0], args[0], _lanes(1, 2, 3, 3))

    return float64x4(float64x4), generate


@_intrinsic
def load(typing_context: Any, array: Any, index: Any) -> tuple[Any, Generator]:  # noqa: ARG001
    """Return four neighbours of a flat float64 array, from `index` on."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.load(_pointer(context, builder, sig, args), align=8, typ=_VECTOR)

    return float64x4(array, types.intp), generate


@_intrinsic
def store(typing_context: Any, array: Any, index: Any, v: Any) -> tuple[Any, Generator]:  # noqa: ARG001
    """Write four neighbours of a flat float64 array, from `index` on."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        builder.store(args[2], _pointer(context, builder, sig, args), align=8)
        return context.get_dummy_value()

    return types.void(array, types.intp, float64x4), generate
