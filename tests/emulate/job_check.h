// Runs a job on the CPU and on every CUDA device of this build, on the same arrays, and compares what it
// wrote.
#pragma once
#include <cmath>
#include <functional>
#include <map>
#include <random>
#include <string>

#include "emulate/devices.h"
#include "kernels/cuda/jobs.h"

namespace strata::testing {

// Host arrays by name. Those that hold no values yet are NaN.
class JobArrays {
 public:
  struct Array {
    DType dtype;
    Dims dims;
    std::vector<std::byte> bytes;
  };

  explicit JobArrays(DType compute_, unsigned seed = 1) : compute(compute_), random_(seed) {}

  const DType compute;
  DType full() const { return acc_of(compute); }
  void normal(const std::string& name, Dims dims, DType dtype, double scale = 1, double shift = 0) {
    std::normal_distribution<double> draw(shift, scale);
    fill(name, dims, dtype, [&] { return draw(random_); });
  }
  void empty(const std::string& name, Dims dims, DType dtype) {
    fill(name, dims, dtype, [] { return std::nan(""); });
  }
  void integers(const std::string& name, const std::vector<std::int32_t>& values) {
    Array& a = all[name] = {DType::Int32, {std::int64_t(values.size())}, {}};
    a.bytes.resize(values.size() * 4);
    std::memcpy(a.bytes.data(), values.data(), a.bytes.size());
  }
  std::vector<double> values(const std::string& name) const;

  std::map<std::string, Array> all;

 private:
  template <class F>
  void fill(const std::string& name, Dims dims, DType dtype, F&& value) {
    Array& a = all[name] = {dtype, dims, {}};
    a.bytes.resize(dims.numel() * size_of(dtype));
    for_float(dtype, [&]<class T>() {
      for (std::int64_t i = 0; i < dims.numel(); ++i) {
        const T element = T(value());
        std::memcpy(a.bytes.data() + i * sizeof(T), &element, sizeof(T));
      }
    });
  }
  std::mt19937 random_;
};

// The array of a name, where the job runs; an empty view if there is none.
using Place = std::function<View(const std::string& name)>;

// Largest difference, relative to the largest value of the array: float64 1e-12, float32 1e-5. Of arrays in
// bfloat16 each element may differ by 2^-7 of itself, one step of its eight bits, beyond that.
void expect_close(const JobArrays& got, const JobArrays& want);

void run_on_cpu(JobArrays& arrays, const std::function<void(kernels::CpuStream&, const Place&)>& run);
// The arrays afterwards, which must have the same bits on every device; empty without a device.
JobArrays run_on_cuda(const JobArrays& arrays,
                      const std::function<void(cuda::CudaStream&, const Place&)>& run);

// make(place) gives the job. Leaves in `arrays` what the CPU wrote.
template <class Make>
void check_job(JobArrays& arrays, Make&& make) {
  const JobArrays got =
      run_on_cuda(arrays, [&](cuda::CudaStream& stream, const Place& place) { stream.run(make(place)); });
  run_on_cpu(arrays, [&](kernels::CpuStream& stream, const Place& place) { stream.run(make(place)); });
  if (!got.all.empty()) expect_close(got, arrays);
}

}  // namespace strata::testing
