// The off-policy learner's gradients as kernels, a pipeline a work-group.
#include "accel/portable/losses.hpp"

BODY_KERNEL(critic_gradient, accel::portable::CriticGradient)
BODY_KERNEL(actor_gradient, accel::portable::ActorGradient)
