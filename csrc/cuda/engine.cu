#include "engine.h"

#include "columns.h"
#include "strided.h"

namespace histo::cuda {

template <class Binning>
void count(const Problem& problem, const Binning& binning, const Launch& launch) {
  // Bytes that lie side by side have the fastest way; strided takes everything.
  if (!count_columns(problem, binning, launch)) {
    count_strided(problem, binning, launch);
  }
}

template void count(const Problem&, const ValueBinning&, const Launch&);
template void count(const Problem&, const LetterBinning&, const Launch&);

} // namespace histo::cuda
