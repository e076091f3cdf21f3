// What host and pipeline say to each other about a batch of look-ups or changes.
#pragma once

#include "accel/portable/sum_tree.hpp"

namespace accel {
namespace portable {

enum TreeOperation { kSample, kRetrieve, kChange, kFill };

template <class Real>
struct TreeBatch {
  TreeOperation operation;
  int64_t first, n;         // items first to first + n - 1 of the call
  SampleTree<Real> sample;  // kSample; kRetrieve: where rows are and priorities go
  Change<Real> change;      // kChange
  int64_t start;            // kFill: row of item 0
  Real value;               // kFill

  ACCEL_ANYWHERE bool goes_down() const { return operation == kSample || operation == kRetrieve; }
};

}  // namespace portable
}  // namespace accel
