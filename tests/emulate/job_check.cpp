#include "emulate/job_check.h"

namespace strata::testing {

std::vector<double> JobArrays::values(const std::string& name) const {
  const Array& a = all.at(name);
  std::vector<double> values(a.dims.numel());
  if (a.dtype == DType::Int32) return values;
  for_float(a.dtype, [&]<class T>() {
    for (std::size_t i = 0; i < values.size(); ++i) {
      T element;
      std::memcpy(&element, a.bytes.data() + i * sizeof(T), sizeof(T));
      values[i] = double(element);
    }
  });
  return values;
}

void expect_close(const JobArrays& got, const JobArrays& want) {
  for (const auto& [name, array] : want.all) {
    const std::vector<double> x = got.values(name), y = want.values(name);
    double largest = 0;
    for (const double v : y) largest = std::max(largest, std::abs(v));
    const double step = array.dtype == DType::BFloat16 ? 0x1p-7 : 0;
    const double tolerance = (want.compute == DType::Float64 ? 1e-12 : 1e-5) * largest;
    for (std::size_t i = 0; i < y.size(); ++i) {
      if (std::isnan(x[i]) && std::isnan(y[i])) continue;  // nobody wrote it
      ASSERT_LE(std::abs(x[i] - y[i]), tolerance + step * std::abs(y[i]))
          << name << " " << array.dims.text() << " at " << i << ": " << x[i] << ", on the CPU " << y[i];
      ASSERT_EQ(std::isnan(x[i]), std::isnan(y[i])) << name << " at " << i;
    }
  }
}

void run_on_cpu(JobArrays& arrays, const std::function<void(kernels::CpuStream&, const Place&)>& run) {
  device::JobQueue queue(device::StreamMode::Inline, 0, [](bool) {});
  kernels::CpuStream stream(queue);
  run(stream, [&](const std::string& name) -> View {
    const auto found = arrays.all.find(name);
    if (found == arrays.all.end()) return {};
    return {found->second.bytes.data(), found->second.dtype, found->second.dims};
  });
}

JobArrays run_on_cuda(const JobArrays& arrays,
                      const std::function<void(cuda::CudaStream&, const Place&)>& run) {
  const auto bytes = same_on_every_device<std::byte>([&](cuda::Device& device) {
    cuda::CudaStream stream(device);
    std::map<std::string, cuda::Memory> on_device;
    for (const auto& [name, array] : arrays.all) {
      const auto size = std::int64_t(array.bytes.size());
      const auto place = on_device.emplace(name, cuda::Memory(device, size)).first;
      stream.queue().upload(place->second.data(), array.bytes.data(), size);
    }
    run(stream, [&](const std::string& name) -> View {
      const auto found = arrays.all.find(name);
      if (found == arrays.all.end()) return {};
      return {on_device.at(name).data(), found->second.dtype, found->second.dims};
    });
    std::int64_t total = 0;
    for (const auto& [name, memory] : on_device) total += memory.bytes();
    std::vector<std::byte> all(total);
    std::byte* next = all.data();
    for (const auto& [name, memory] : on_device) {
      stream.queue().download(next, memory.data(), memory.bytes());
      next += memory.bytes();
    }
    stream.synchronize();
    return all;
  });
  JobArrays result = arrays;
  if (bytes.empty()) result.all.clear();
  auto next = bytes.begin();
  for (auto& [name, array] : result.all) {
    std::copy_n(next, array.bytes.size(), array.bytes.begin());
    next += std::ptrdiff_t(array.bytes.size());
  }
  return result;
}

}  // namespace strata::testing
