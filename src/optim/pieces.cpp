#include "optim/pieces.h"

#include <algorithm>

namespace strata::optim {

Part part_of(std::int64_t n, int rank, int size) {
  const std::int64_t length = (n + size - 1) / size;
  return {std::min(n, rank * length), std::min(n, (rank + 1) * length)};
}

std::vector<Piece> pieces_of(const Bucket& bucket, Part part) {
  std::vector<Piece> pieces;
  for (const Parameter* p : bucket.parameters)
    for (const NamedSlice& s : p->slices) {
      const std::int64_t at = p->bucket_offset + s.offset;
      const std::int64_t begin = std::max(part.begin, at), end = std::min(part.end, at + s.dims.numel());
      if (begin < end) pieces.push_back({s.name, s.dims, begin - at, end - begin, begin});
    }
  return pieces;
}

}  // namespace strata::optim
