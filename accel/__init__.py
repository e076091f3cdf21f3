"""Compute the inner loops of training on small networks, without torch.

Needs nothing but NumPy and the compiled module beside it. Here are the learner of PPO and a
network's evaluation; `accel.interfaces` says what sum trees and off-policy learners do, and
`accel.backends` which backends have them (`python -m accel` prints those).

**A network is a tree of dense layers**, y = activation(x W + b), described by a table ``layers`` of
int32 (n_layers, 6), one row a layer, a source before its readers:

    column  name        meaning
    0       source      layer whose output is read; -1: the network's input
    1       begin       first column read there
    2       n_in        number of columns read
    3       n_out       number of columns made
    4       activation  0 identity, 1 relu, 2 tanh, 3 sigmoid
    5       output      first column in the network's output row; -1: hidden

For instance a Gaussian policy for 10 observations and 1 action, a trunk of 64 and two branches of
64 side by side in one layer, the mean ending in tanh and the standard deviation in a sigmoid:

                                     columns 0-63    +-----------+
     input     +----------+    +-----------+ ------> | 2: 1 tanh | --> output 0  mean
     10 -----> | 0: 64    | -> | 1: 128    |         +-----------+
               |    tanh  |    |    tanh   | ------> +-----------+
               +----------+    +-----------+ 64-127  | 3: 1 sigm | --> output 1  standard deviation
                                                     +-----------+
     source  begin  n_in  n_out  activation  output
         -1      0    10     64           2      -1
          0      0    64    128           2      -1
          1      0    64      1           2       0
          1     64    64      1           3       1

**Flat weights** (float32) hold, for each layer in the order of the table, W (n_in, n_out) row by
row, then b (n_out):

     | W0 (10 x 64) | b0 (64) | W1 (64 x 128) | b1 (128) | W2 (64 x 1) | b2 | W3 (64 x 1) | b3 |

The parameters of a PPO learner are the actor's flat weights, then the critic's.
"""

from accel._native import PpoLearner, PpoStep, forward, multiply_adds, variants

__all__ = ["PpoLearner", "PpoStep", "forward", "multiply_adds", "variants"]
