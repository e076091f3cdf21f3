"""Typed configuration: frozen dataclasses, TOML files, and the command line."""

from flowrl.config.checkpoint import CheckpointConfig
from flowrl.config.command_line import error_line, parse, parse_options, run_command
from flowrl.config.names import ConfigError, nearest
from flowrl.config.off_policy import (
    DdpgConfig,
    DqnConfig,
    OffPolicyConfig,
    ParallelConfig,
    ReplayConfig,
    SacConfig,
    Td3Config,
)
from flowrl.config.run import (
    ALGORITHMS,
    BOOTSTRAPS,
    LEARNERS,
    CommConfig,
    EvaluationConfig,
    NetworkConfig,
    PpoConfig,
    ProgressConfig,
    RecordConfig,
    RunConfig,
)
from flowrl.config.toml import flat_toml, from_toml, load_toml, to_toml

__all__ = [
    "ALGORITHMS",
    "BOOTSTRAPS",
    "LEARNERS",
    "CheckpointConfig",
    "CommConfig",
    "ConfigError",
    "DdpgConfig",
    "DqnConfig",
    "EvaluationConfig",
    "NetworkConfig",
    "OffPolicyConfig",
    "ParallelConfig",
    "PpoConfig",
    "ProgressConfig",
    "RecordConfig",
    "ReplayConfig",
    "RunConfig",
    "SacConfig",
    "Td3Config",
    "error_line",
    "flat_toml",
    "from_toml",
    "load_toml",
    "nearest",
    "parse",
    "parse_options",
    "run_command",
    "to_toml",
]
