// Parts of buckets and what they hold of named slices.
#include "optim/pieces.h"

#include <gtest/gtest.h>

namespace strata::test {
namespace {

using optim::Part;
using optim::Piece;

TEST(Pieces, PartsCoverABucketOnce) {
  for (const std::int64_t n : {0, 1, 5, 48, 96})
    for (int size = 1; size <= 7; ++size) {
      std::int64_t next = 0;
      for (int rank = 0; rank < size; ++rank) {
        const Part part = optim::part_of(n, rank, size);
        EXPECT_EQ(part.begin, next) << n << " over " << size;
        EXPECT_GE(part.count(), 0);
        EXPECT_TRUE(n % size != 0 || part.count() == n / size);
        next = part.end;
      }
      EXPECT_EQ(next, n) << size;
    }
}

// a: [0, 6); padding; two experts of 10: [16, 26) and [26, 36); padding to 48.
struct Sample {
  Sample() {
    a.slices = {{"a", 0, {2, 3}}};
    experts.slices = {{"e0", 0, {10}}, {"e1", 10, {10}}};
    experts.bucket_offset = 16;
    bucket.parameters = {&a, &experts};
  }
  std::string text(Part part) {
    std::string all;
    for (const Piece& p : optim::pieces_of(bucket, part))
      all += concat(p.name, p.dims.text(), " ", p.offset, "+", p.count, " at ", p.position, "; ");
    return all;
  }
  Parameter a, experts;
  Bucket bucket{};
};

TEST(Pieces, OfAPart) {
  Sample s;
  EXPECT_EQ(s.text({0, 48}), "a[2, 3] 0+6 at 0; e0[10] 0+10 at 16; e1[10] 0+10 at 26; ");
  EXPECT_EQ(s.text({18, 24}), "e0[10] 2+6 at 18; ") << "begins and ends inside a slice";
  EXPECT_EQ(s.text({5, 27}), "a[2, 3] 5+1 at 5; e0[10] 0+10 at 16; e1[10] 0+1 at 26; ");
  EXPECT_EQ(s.text({6, 16}), "") << "padding";
  EXPECT_EQ(s.text({26, 36}), "e1[10] 0+10 at 26; ");
  EXPECT_EQ(s.text({36, 48}), "");
  EXPECT_EQ(s.text({20, 20}), "") << "an empty part";
}

}  // namespace
}  // namespace strata::test
