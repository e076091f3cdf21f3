"""The check that says of a bad value which field it is, which rule it breaks and what came."""


def require(holds: bool, field: str, rule: str, value: object) -> None:
    """Raise ValueError "field must be rule, got value" where the rule does not hold."""
    if not holds:
        raise ValueError(f"{field} must be {rule}, got {value}")
