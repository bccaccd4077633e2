// y[t] = weight[id[t]].
#include "reference/embedding.h"

namespace strata::reference {

Array embedding(const Ids& ids, const Array& weight) {
  Array y({static_cast<int64_t>(ids.size()), weight.dim(1)});
  for (int64_t t = 0; t < y.dim(0); ++t) {
    for (int64_t i = 0; i < y.dim(1); ++i) y(t, i) = weight(ids[static_cast<size_t>(t)], i);
  }
  return y;
}

}  // namespace strata::reference
