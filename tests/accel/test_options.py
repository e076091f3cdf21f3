"""Options of the off-policy learners that no backend could follow."""

from typing import Any

import pytest

from accel.interfaces import Adam, Dqn, Sac, Td3


@pytest.mark.parametrize(
    ("make", "options", "field"),
    [
        (Adam, {"learning_rate": 1e39}, "learning_rate"),
        (Adam, {"epsilon": 1e-60}, "epsilon"),  # 0 in float32, hence 0 / 0
        (Adam, {"betas": (0.9,)}, "betas"),
        (Adam, {"betas": (0.9, 0.99, 0.999)}, "betas"),
        (Dqn, {"target_interval": 1.5}, "target_interval"),
        (Dqn, {"target_interval": 2**31}, "target_interval"),
        (Td3, {"policy_delay": float("inf")}, "policy_delay"),
        (Dqn, {"optimiser": None}, "optimiser"),
        (Dqn, {"double": "no"}, "double"),
        (Td3, {"critic": 3e-4}, "critic"),
        (Sac, {"target_entropy": 1e300}, "target_entropy"),
        (Sac, {"target_entropy": -1.0, "initial_temperature": 1e-60}, "initial_temperature"),
    ],
)
def test_out_of_range(make: Any, options: dict[str, Any], field: str) -> None:
    with pytest.raises(ValueError, match=f"^{field} must be "):
        make(**options)
