// The off-policy learner's bodies as kernels.
#include "accel/portable/losses.hpp"
#include "accel/portable/optimiser.hpp"

BODY_KERNEL(critic_gradient, accel::portable::CriticGradient)
BODY_KERNEL(actor_gradient, accel::portable::ActorGradient)
BODY_KERNEL(aggregate_gradient, accel::portable::AggregateGradient)
BODY_KERNEL(adam_step, accel::portable::AdamStep)
BODY_KERNEL(end_step, accel::portable::EndStep)
