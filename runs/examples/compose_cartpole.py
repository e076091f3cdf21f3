"""Compose a training of CartPole, and write the program that runs it.

    python runs/examples/compose_cartpole.py runtime_cartpole.py
    python runtime_cartpole.py
    python -m flowrl.plot curves runtime_cartpole.h5 -o curves.png

No device is named here: on another machine the same lines choose other ones.
"""

import sys

from flowrl.composer import Composer
from flowrl.composer.trainers import DQN


def main(path: str, quick: bool = False) -> None:
    """Measure the primitives, choose their devices, write the program."""
    composer = Composer(metric="throughput")
    composer.set_actors("CartPole-v1", n_envs=8, n_transitions=100_000)
    composer.set_train_function(
        DQN,
        actor_width=128,
        critic_width=128,
        learning_rate=2e-4,
        target_interval=1,
        target_rate=0.01,
        exploration_share=0.2,
        final_epsilon=0.15,
        reward_scale=0.02,
        normalise_observations=True,
        observation_clip=50.0,
        steps_per_collection=4,
    )
    # 512 rows an update, an update for every 4 new rows.
    composer.set_replay(kind="uniform", capacity=100_000, batch_size=512, insert_size=4)
    result = composer.run(n_iterations=50 if quick else 1000)
    placement = result.placement
    print("replay manager on", placement.replay_manager)  # noqa: T201
    print("learner on", placement.learner)  # noqa: T201
    print("data storage on", placement.storage)  # noqa: T201
    print(f"{1e6 * placement.t_itr_s:.0f} us an iteration")  # noqa: T201
    composer.RuntimeGen(result, path)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "runtime_cartpole.py", "--quick" in sys.argv)
