"""Reading trainers: layers in the order of their calls, and errors that say what is missing."""

from __future__ import annotations

import subprocess
import sys

import gymnasium
import numpy as np
import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402

from flowrl.composer.description import INPUT, MIXED, Convolution  # noqa: E402
from flowrl.composer.modules import Spaces, read_trainer  # noqa: E402
from flowrl.composer.trainers import DQN, SAC, TD3  # noqa: E402
from flowrl.config import ConfigError  # noqa: E402
from flowrl.networks import Activation, perceptron, twins  # noqa: E402

BOX = gymnasium.spaces.Box
FOUR = Spaces(BOX(-1, 1, (4,)), gymnasium.spaces.Discrete(2))
CONTINUOUS = Spaces(BOX(-1, 1, (3,)), BOX(-2, 2, (1,)))
PIXELS = Spaces(BOX(0, 1, (1, 8, 8)), gymnasium.spaces.Discrete(3))


def trainer_of(module, **attributes):
    """Return a trainer class that acts with a network made by `module`."""

    class Own:
        def __init__(self):
            self.network = module()

        def get_action(self, observation):
            x = torch.as_tensor(observation)[None]
            return int(self.network(x).argmax())

        def update_policy(self, batch):
            return batch.rewards

    for name, value in attributes.items():
        setattr(Own, name, value)
    return Own


class Backwards(nn.Module):
    """Layers declared in another order than they are called, with functional activations."""

    def __init__(self):
        super().__init__()
        self.last = nn.Linear(6, 2)
        self.middle = nn.Linear(5, 6)
        self.first = nn.Linear(4, 5)

    def forward(self, x):
        x = functional.relu(self.first(x))
        if x.shape[0] > 0:  # control flow that no symbolic tracer follows
            x = torch.tanh(self.middle(x))
        return self.last(x)


class Reused(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.again = nn.Linear(4, 5), nn.Linear(5, 5)
        self.last = nn.Linear(5, 2)

    def forward(self, x):
        x = self.first(x).sigmoid()
        return self.last(self.again(self.again(x).relu()).relu())


class Dueling(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk, self.value, self.advantage = nn.Linear(4, 8), nn.Linear(8, 1), nn.Linear(8, 2)

    def forward(self, x):
        x = torch.relu(self.trunk(x))
        advantage = self.advantage(x)
        return self.value(x) + advantage - advantage.mean(1, keepdim=True)


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 2)

    def forward(self, x):
        y = torch.relu(self.a(x))
        return self.c(y + torch.relu(self.b(y)))


def layers(description):
    return [(x.name, x.n_in, x.n_out, x.activation, x.source) for x in description.acting.layers]


def test_sequential_is_a_chain():
    net = lambda: nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2), nn.Tanh())  # noqa: E731
    found = read_trainer(trainer_of(net), FOUR)
    assert layers(found) == [("0", 4, 8, "relu", INPUT), ("2", 8, 2, "tanh", 0)]
    wanted = perceptron(4, (8,), 2, Activation.RELU, Activation.TANH)
    np.testing.assert_array_equal(found.actor, wanted)
    assert found.algo == "torch"
    assert found.input_shape == (4,)


def test_layers_stand_in_the_order_of_calls():
    found = read_trainer(trainer_of(Backwards), FOUR)
    assert layers(found) == [
        ("first", 4, 5, "relu", INPUT),
        ("middle", 5, 6, "tanh", 0),
        ("last", 6, 2, "identity", 1),
    ]
    assert found.acting.is_chain


def test_a_layer_called_twice_stands_twice_and_is_no_chain():
    found = read_trainer(trainer_of(Reused), FOUR)
    assert [name for name, *_ in layers(found)] == ["first", "again", "again", "last"]
    assert [x[3] for x in layers(found)] == ["sigmoid", "relu", "relu", "identity"]
    assert found.actor is None


@pytest.mark.parametrize(
    ("module", "sources"), [(Dueling, [INPUT, 0, 0]), (Residual, [INPUT, 0, MIXED])]
)
def test_branches_are_no_chain(module, sources):
    found = read_trainer(trainer_of(module), FOUR)
    assert [x.source for x in found.acting.layers] == sources
    assert found.actor is None


@pytest.mark.parametrize("activation", [nn.ELU, nn.GELU, nn.LeakyReLU])
def test_an_activation_without_fused_form_is_named(activation):
    net = lambda: nn.Sequential(nn.Linear(4, 8), activation(), nn.Linear(8, 2))  # noqa: E731
    found = read_trainer(trainer_of(net), FOUR)
    assert found.acting.layers[0].activation == {
        nn.ELU: "elu", nn.GELU: "gelu", nn.LeakyReLU: "leaky_relu"
    }[activation]  # fmt: skip
    assert found.actor is None


def test_a_layer_without_bias_is_no_chain():
    found = read_trainer(trainer_of(lambda: nn.Sequential(nn.Linear(4, 2, bias=False))), FOUR)
    assert not found.acting.layers[0].has_bias
    assert found.actor is None


def test_convolutions():
    net = lambda: nn.Sequential(  # noqa: E731
        nn.Conv2d(1, 4, 3, stride=2), nn.ReLU(), nn.Flatten(), nn.Linear(36, 3)
    )
    found = read_trainer(trainer_of(net), PIXELS)
    first, second = found.acting.layers
    assert first == Convolution(
        "0", 1, 4, (3, 3), (2, 2), (0, 0), "relu", source=INPUT, output_size=(3, 3)
    )
    assert first.n_multiply_adds == 1 * 4 * 9 * 9
    assert (second.n_in, second.n_out, second.source) == (36, 3, 0)
    assert found.input_shape == (1, 8, 8)
    assert found.actor is None


def test_an_explorer_that_never_asks_its_network_is_read_by_its_sizes():
    own = trainer_of(lambda: nn.Linear(4, 2), get_action=lambda *_: 1)
    own.__init__ = lambda self: self.__dict__.update(
        value=nn.Sequential(nn.Linear(5, 1)), network=nn.Sequential(nn.Linear(4, 2))
    )
    found = read_trainer(own, FOUR)
    assert {n.name: n.role for n in found.networks} == {"value": "critic", "network": "acting"}


def test_a_trainer_may_be_a_module_itself():
    class Own(Backwards):
        def get_action(self, observation):
            return int(self(torch.as_tensor(observation)[None]).argmax())

        def update_policy(self, batch):
            return batch.rewards

    found = read_trainer(Own, FOUR)
    assert [name for name, *_ in layers(found)] == ["first", "middle", "last"]
    assert found.acting.name == "self"


def test_the_projects_trainers_are_recognised():
    found = read_trainer(TD3, CONTINUOUS)
    assert found.algo == "td3"
    np.testing.assert_array_equal(found.critic, twins(4, 256, 2))
    assert [n.role for n in found.networks].count("target") == 3


def test_other_networks_keep_the_algorithm():
    class Small(DQN):
        def make_network(self, n_inputs, n_outputs, *_):
            return nn.Sequential(nn.Linear(n_inputs, 7), nn.Tanh(), nn.Linear(7, n_outputs))

    found = read_trainer(Small, FOUR)
    assert found.algo == "dqn"
    np.testing.assert_array_equal(found.actor, perceptron(4, (7,), 2, Activation.TANH))


@pytest.mark.parametrize("method", ["update_policy", "get_action"])
def test_an_override_runs_through_torch(method):
    own = type("Own", (SAC,), {method: lambda self, x: getattr(SAC, method)(self, x)})
    assert read_trainer(own, CONTINUOUS).algo == "torch"


def test_networks_that_do_not_fit_run_through_torch():
    class Elu(DQN):
        def make_network(self, n_inputs, n_outputs, *_):
            return nn.Sequential(nn.Linear(n_inputs, 7), nn.ELU(), nn.Linear(7, n_outputs))

    found = read_trainer(Elu, FOUR)
    assert found.algo == "torch"
    assert "perceptrons" in found.notes[0]


def needs_a_width(self, width):
    self.width = width


def linear(n_in, n_out):
    return lambda: nn.Sequential(nn.Linear(n_in, n_out))


@pytest.mark.parametrize(
    ("own", "message"),
    [
        (trainer_of(linear(4, 2), get_action=None), "must have a method get_action"),
        (trainer_of(linear(4, 2), update_policy=None), "must have a method update_policy"),
        (trainer_of(nn.ReLU), "must have an nn.Linear or nn.Conv2d"),
        (trainer_of(linear(5, 2)), r"4 numbers .* got nn.Linear\(5, 2\)"),
        (trainer_of(linear(4, 3)), "each of 2 actions, got 3"),
        (trainer_of(linear(4, 2), input_shape=(5,)), r"the 4 numbers .* got 5"),
        (trainer_of(linear(4, 2), input_shape="wide"), "input_shape must be a tuple"),
        (trainer_of(linear(4, 2), get_action=lambda *_: 7), r"action of Discrete\(2\), got 7"),
        (trainer_of(linear(4, 2), get_action=lambda _, x: x.nothing), "must take an observ"),
        (DQN(FOUR.observation, FOUR.action), "must get a class"),
        (
            trainer_of(linear(4, 2), __init__=needs_a_width),
            "got no width; give it a default",
        ),
    ],
)
def test_what_is_missing_is_said_in_one_line(own, message):
    with pytest.raises(ConfigError, match=message) as caught:
        read_trainer(own, FOUR)
    assert "\n" not in str(caught.value)


def test_options_must_be_arguments_and_switches_no_text():
    def init(self, width=3, double=True):
        self.double = double
        self.network = nn.Sequential(nn.Linear(4, width), nn.ReLU(), nn.Linear(width, 2))

    own = trainer_of(None, __init__=init)
    assert read_trainer(own, FOUR, {"width": 9}).acting.layers[0].n_out == 9
    with pytest.raises(ConfigError, match="did you mean width"):
        read_trainer(own, FOUR, {"widht": 9})
    with pytest.raises(ConfigError, match="double must be True or False, got 'False'"):
        read_trainer(own, FOUR, {"double": "False"})


def test_the_package_does_not_load_torch():
    code = (
        "import sys; import flowrl.composer; from flowrl.composer import Composer; Composer(); "
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
