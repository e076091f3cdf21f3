// From gradients to the end of a learner's step as kernels.
#include "accel/portable/losses.hpp"
#include "accel/portable/optimiser.hpp"

BODY_KERNEL(aggregate_gradient, accel::portable::AggregateGradient)
BODY_KERNEL(adam_step, accel::portable::AdamStep)
BODY_KERNEL(end_step, accel::portable::EndStep)
