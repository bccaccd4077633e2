// Interval arithmetic: a rank's part of a bucket, and what it has of each named slice. A part may begin and
// end inside a slice.
#pragma once
#include <string>
#include <vector>

#include "autograd/parameter.h"

namespace strata::optim {

// Elements [begin, end) of a bucket.
struct Part {
  std::int64_t begin = 0, end = 0;
  std::int64_t count() const { return end - begin; }
  bool operator==(const Part&) const = default;
};

// Member `rank`'s part of n elements: `size` parts that cover them once, equal where size divides n.
Part part_of(std::int64_t n, int rank, int size);

// Elements [offset, offset + count) of the slice `name`; the first of them is element `position` of the
// bucket.
struct Piece {
  std::string name;
  Dims dims;  // of the whole slice
  std::int64_t offset = 0, count = 0, position = 0;
};

// What lies in `part`, in the bucket's order; padding belongs to nobody.
std::vector<Piece> pieces_of(const Bucket& bucket, Part part);

}  // namespace strata::optim
