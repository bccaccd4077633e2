// Sum and SumSquares: float64 accumulation in fixed chunks.
#include <gtest/gtest.h>
#include <omp.h>

#include "base/philox.h"
#include "kernels/jobs.h"
#include "support/op_case.h"
#include "support/test_device.h"

namespace strata::test {
namespace {

std::vector<double> normals(std::int64_t n) {
  std::vector<double> v(n);
  const Philox numbers(5, "reduce");
  for (std::int64_t i = 0; i < n; ++i) v[i] = double(float(numbers.normal(i)));
  return v;
}

template <class Job>
double reduced(const std::vector<double>& values, DType type, DType result, double start, Job job) {
  device::Device device(device_options());
  const Tensor x(device, {std::int64_t(values.size())}, type), y(device, {1}, result);
  from_host(device, x, values);
  if (job.mode == Write::Accumulate) from_host(device, y, std::vector<double>{start});
  job.x = x;
  job.y = y;
  device.compute().run(job);
  return to_host(device, y, "test").at(0);
}

TEST(Sum, AnySize) {
  for (const std::int64_t n : {0, 1, 7, 8192, 8193, 100003}) {
    const std::vector<double> v = normals(n);
    long double exact = 0;
    for (const double x : v) exact += x;
    EXPECT_NEAR(reduced(v, DType::Float64, DType::Float64, 0, kernels::Sum{.x = {}, .y = {}, .scale = -2}),
                double(-2 * exact), 1e-10);
    EXPECT_NEAR(reduced(v, DType::Float32, DType::Float32, 0.5,
                        kernels::Sum{.x = {}, .y = {}, .scale = 3, .mode = Write::Accumulate}),
                double(3 * exact) + 0.5, 1e-4);
  }
}

// float32 sums would lose every 1 beside 2^26.
TEST(Sum, KeepsFloat64Inside) {
  std::vector<double> v(50000, 1.0);
  v[0] = 0x1p26;
  v.back() = -0x1p26;
  EXPECT_EQ(reduced(v, DType::Float32, DType::Float32, 0, kernels::Sum{}), 49998);
}

TEST(SumSquares, AnySizeAndType) {
  for (const std::int64_t n : {0, 1, 8193, 100003}) {
    const std::vector<double> v = normals(n);
    long double exact = 0;
    for (const double x : v) exact += (long double)(x)*x;
    for (const DType type : {DType::Float32, DType::Float64}) {
      EXPECT_NEAR(reduced(v, type, DType::Float64, 0, kernels::SumSquares{}), double(exact),
                  1e-13 * double(n + 1));
      EXPECT_NEAR(reduced(v, type, DType::Float64, 7,
                          kernels::SumSquares{.x = {}, .y = {}, .mode = Write::Accumulate}),
                  double(exact) + 7, 1e-13 * double(n + 1));
    }
  }
  EXPECT_EQ(reduced({3, -4}, DType::BFloat16, DType::Float64, 0, kernels::SumSquares{}), 25);
}

TEST(SumSquares, SameBitsWithAnyNumberOfThreads) {
  const std::vector<double> v = normals(100003);
  std::vector<double> sums, squares;
  for (const int threads : {1, 2, 3}) {
    omp_set_num_threads(threads);
    sums.push_back(reduced(v, DType::Float64, DType::Float64, 0, kernels::Sum{}));
    squares.push_back(reduced(v, DType::Float32, DType::Float64, 0, kernels::SumSquares{}));
  }
  omp_set_num_threads(2);
  EXPECT_EQ(sums, std::vector<double>(3, sums[0]));
  EXPECT_EQ(squares, std::vector<double>(3, squares[0]));
}

}  // namespace
}  // namespace strata::test
