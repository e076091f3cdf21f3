// The sum tree's bodies as kernels, for trees of REAL.
#include "accel/portable/sum_tree.hpp"

BODY_KERNEL(sample_tree, accel::portable::SampleTree<REAL>)
BODY_KERNEL(weigh_rows, accel::portable::WeighRows<REAL>)
BODY_KERNEL(retrieve_rows, accel::portable::RetrieveRows<REAL>)
BODY_KERNEL(recompute_level, accel::portable::RecomputeLevel<REAL>)
BODY_KERNEL(claim_rows, accel::portable::ClaimRows<REAL>)
BODY_KERNEL(check_rows, accel::portable::CheckRows<REAL>)
BODY_KERNEL(write_rows, accel::portable::WriteRows<REAL>)
BODY_KERNEL(change_rows, accel::portable::ChangeRows<REAL>)
BODY_KERNEL(fill_rows, accel::portable::FillRows<REAL>)
