// Matrix products against the reference in float64: all transposes, types and modes, odd and empty sizes.
#include <gtest/gtest.h>
#include <omp.h>

#include <cmath>

#include "kernels/jobs.h"
#include "reference/linear.h"
#include "support/op_case.h"
#include "support/test_device.h"

namespace strata::test {
namespace {

using reference::Array;

struct Size {
  std::int64_t m, n, k;
};

Array random(std::int64_t rows, std::int64_t columns, DType type, const std::string& name) {
  return normal({rows, columns}, type, 3, name);
}

Array transposed(const Array& a) {
  Array t({a.dim(1), a.dim(0)});
  for (std::int64_t i = 0; i < a.dim(0); ++i)
    for (std::int64_t j = 0; j < a.dim(1); ++j) t(j, i) = a(i, j);
  return t;
}

struct GemmRun {
  Size size;
  DType a = DType::Float32, b = DType::Float32, c = DType::Float32;
  bool transpose_a = false, transpose_b = false;
  Write mode = Write::Overwrite;

  std::string text() const {
    return concat("[", size.m, ",", size.n, ",", size.k, "] ", name_of(a), transpose_a ? "^T " : " ",
                  name_of(b), transpose_b ? "^T" : "", " -> ", name_of(c),
                  mode == Write::Accumulate ? ", added" : "");
  }
  Array left() const { return random(size.m, size.k, a, "a"); }
  Array right() const { return random(size.k, size.n, b, "b"); }
  Array before() const { return random(size.m, size.n, c, "c"); }

  // Overwriting starts from NaN: the device fills fresh memory with it.
  std::vector<double> result(const Array& x, const Array& y, int threads = 1) const {
    omp_set_num_threads(threads);
    device::Device device(device_options());
    const Tensor ta = upload(device, transpose_a ? transposed(x) : x, a);
    const Tensor tb = upload(device, transpose_b ? transposed(y) : y, b);
    const Tensor tc(device, {size.m, size.n}, c);
    if (mode == Write::Accumulate) from_host(device, tc, before().data);
    device.compute().run(kernels::Gemm{
        .a = ta, .b = tb, .c = tc, .transpose_a = transpose_a, .transpose_b = transpose_b, .mode = mode});
    return to_host(device, tc, "test");
  }

  void check() const {
    const Array x = left(), y = right();
    Array expected = mode == Write::Accumulate ? before() : Array({size.m, size.n});
    if (x.size() > 0 && y.size() > 0) {  // the reference knows no empty arrays
      const Array product = reference::linear(x, transposed(y));
      for (std::int64_t i = 0; i < product.size(); ++i) expected.data[i] += product.data[i];
    }
    const bool exact = a == DType::Float64 || b == DType::Float64 || c == DType::Float64;
    const double tolerance = c == DType::BFloat16 ? 4e-3 : c == DType::Float32 || !exact ? 2e-6 : 1e-13;
    EXPECT_LE(relative_error(result(x, y), expected.data), tolerance) << text();
  }
};

constexpr DType kTypes[] = {DType::Float32, DType::Float64, DType::BFloat16};

void check_all_ways(const Size& size) {
  for (const DType a : kTypes)
    for (const DType b : kTypes)
      for (const DType c : kTypes)
        for (const bool transpose_a : {false, true})
          for (const bool transpose_b : {false, true})
            for (const Write mode : {Write::Overwrite, Write::Accumulate})
              GemmRun{size, a, b, c, transpose_a, transpose_b, mode}.check();
}

TEST(Gemm, AllTransposesTypesAndModes) { check_all_ways({23, 31, 17}); }

TEST(Gemm, OneRowColumnOrTerm) {
  for (const Size s : {Size{1, 1, 1}, Size{1, 13, 7}, Size{13, 1, 7}, Size{13, 7, 1}, Size{1, 1, 29}})
    check_all_ways(s);
}

TEST(Gemm, EmptySumIsZero) { check_all_ways({5, 3, 0}); }

TEST(Gemm, EmptyResult) {
  for (const Size s : {Size{0, 3, 2}, Size{3, 0, 2}, Size{0, 0, 0}}) check_all_ways(s);
}

// Beyond the sides of a tile and the depth of a converted block.
TEST(Gemm, SeveralTilesAndBlocks) {
  for (const DType c : kTypes)
    for (const DType ab : kTypes)
      for (const bool flip : {false, true}) {
        GemmRun{{67, 131, 1031}, ab, ab, c, flip, !flip, Write::Accumulate}.check();
        GemmRun{{515, 519, 5}, ab, ab, c, flip, flip}.check();
      }
  GemmRun{{67, 131, 1031}, DType::Float32, DType::BFloat16, DType::BFloat16, false, true}.check();
}

TEST(Gemm, SameBitsWithAnyNumberOfThreads) {
  for (const DType type : kTypes)
    for (const Size s : {Size{61, 59, 4099}, Size{300, 500, 257}, Size{1, 700, 300}, Size{9, 3, 20011}}) {
      const GemmRun run{s, type, type, type, true, false};
      const Array x = run.left(), y = run.right();
      const std::vector<double> one = run.result(x, y);
      EXPECT_EQ(one, run.result(x, y, 2)) << run.text();
      EXPECT_EQ(one, run.result(x, y, 3)) << run.text();
    }
  omp_set_num_threads(2);
}

// Rows along the sum a page apart are copied in blocks, of which the sum has several.
TEST(Gemm, RowsAPageApart) {
  GemmRun run{{1024, 1024, 1100}, DType::Float32, DType::Float32, DType::Float32, true, false};
  const Array x = run.left(), y = run.right();
  const std::vector<double> got = run.result(x, y);
  run.a = run.b = run.c = DType::Float64;
  EXPECT_LE(relative_error(got, run.result(x, y)), 2e-6);
}

TEST(Gemm, RefusesShapesThatDoNotFit) {
  device::Device device;
  const Tensor a(device, {4, 3}, DType::Float32), b(device, {2, 5}, DType::Float32),
      c(device, {4, 5}, DType::Float32);
  EXPECT_THROW(device.compute().run(kernels::Gemm{.a = a, .b = b, .c = c}), Error);
}

// bfloat16 rows and weights into a float32 gradient, on top of what is there.
TEST(GroupedGemm, MixedTypes) {
  device::Device device(device_options());
  const Array x = random(11, 5, DType::BFloat16, "x"), w = random(3 * 7, 5, DType::BFloat16, "w");
  const std::vector<std::int64_t> offsets{0, 4, 4, 11};
  const Tensor y = upload(device, random(11, 7, DType::Float32, "y"), DType::Float32);
  Array expected = random(11, 7, DType::Float32, "y");
  for (std::int64_t r = 0; r < 11; ++r)
    for (std::int64_t o = 0; o < 7; ++o)
      for (std::int64_t i = 0; i < 5; ++i) expected(r, o) += x(r, i) * w((r < 4 ? 0 : 2) * 7 + o, i);
  device.compute().run(kernels::GroupedGemm{.x = upload(device, x, DType::BFloat16),
                                            .w = upload(device, w, DType::BFloat16).reshape({3, 7, 5}),
                                            .offsets = upload_int(device, offsets, {4}),
                                            .y = y,
                                            .mode = Write::Accumulate});
  EXPECT_LE(relative_error(to_host(device, y, "test"), expected.data), 1e-6);
}

}  // namespace
}  // namespace strata::test
