// A tensor is a cheap handle to counted device memory: contiguous, up to four dimensions.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "base/view.h"
#include "device/device.h"

namespace strata {

class Tensor {
 public:
  Tensor() = default;
  // Fresh memory, contents undefined.
  Tensor(device::Device& device, Dims dims, DType dtype,
         device::Purpose purpose = device::Purpose::Activations);

  bool defined() const { return storage_ != nullptr; }
  const Dims& dims() const { return dims_; }
  std::int64_t dim(int i) const { return dims_[i]; }
  DType dtype() const { return dtype_; }
  std::int64_t numel() const { return dims_.numel(); }
  std::int64_t bytes() const { return numel() * size_of(dtype_); }

  View view() const;
  operator View() const { return view(); }
  operator ConstView() const { return view(); }

  Tensor reshape(Dims dims) const;                           // same elements
  Tensor slice(std::int64_t begin, std::int64_t end) const;  // along the first dimension
  Tensor at(std::int64_t element, Dims dims) const;          // `dims` elements from a flat offset

  const std::shared_ptr<device::Storage>& storage() const { return storage_; }

 private:
  std::shared_ptr<device::Storage> storage_;
  std::int64_t offset_ = 0;  // bytes
  Dims dims_;
  DType dtype_ = DType::Float32;
};

// Host copies. Values are converted to or from the tensor's type; a count that differs from numel() is an
// error.
std::vector<double> to_host(device::Device& device, const Tensor& t, const std::string& why);
std::vector<std::int64_t> to_host_int(device::Device& device, const Tensor& t, const std::string& why);
void from_host(device::Device& device, const Tensor& t, const std::vector<double>& values);
void from_host(device::Device& device, const Tensor& t, const std::vector<std::int64_t>& values);

}  // namespace strata
