// Joint histograms: the joint slots of elements are counted as slots of one coordinate are.
#include <cstdint>

#include "cpu/joint/digitize_joint.h"
#include "cpu/kernels.h"
#include "cpu/weights/write_by_slots.h"

namespace histo::cpu {
void count_joint(const Problem& problem, const JointAxes& axes, Allocator& allocate) {
  if (problem.num_counts() == 0) {
    return;
  }
  Problem slots = problem;
  slots.type = slot_type_of(problem.num_bins);
  count_slots(slots, *digitize_joint(problem, axes, slots.type), allocate);
}

void write_joint_index(const Problem& problem, const JointAxes& axes, int64_t* index) {
  write_by_slots(
      problem, slots_joint(problem, axes), index,
      [bins = static_cast<uint64_t>(problem.num_bins)](int64_t, uint64_t slot) {
        return slot < bins ? static_cast<int64_t>(slot) : kNoBin;
      });
}

} // namespace histo::cpu
