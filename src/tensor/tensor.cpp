#include "tensor/tensor.h"

#include <type_traits>

namespace strata {
namespace {

template <class F>
decltype(auto) for_any(DType type, F&& f) {
  if (type == DType::Int32) return f.template operator()<std::int32_t>();
  if (type == DType::Int64) return f.template operator()<std::int64_t>();
  return for_float(type, f);
}

template <class Out>
std::vector<Out> download(device::Device& device, const Tensor& t, const std::string& why) {
  return for_any(t.dtype(), [&]<class T>() {
    std::vector<T> raw(t.numel());
    if (!raw.empty()) device.read_back(raw.data(), t.view().data, t.bytes(), why);
    return std::vector<Out>(raw.begin(), raw.end());
  });
}

template <class In>
void store(device::Device& device, const Tensor& t, const std::vector<In>& values) {
  STRATA_CHECK(std::int64_t(values.size()) == t.numel(), values.size(), " values for a tensor of ",
               t.numel());
  if (device.dry()) return;
  for_any(t.dtype(), [&]<class T>() {
    std::vector<T> raw(values.size());
    for (std::size_t i = 0; i < raw.size(); ++i) raw[i] = T(values[i]);
    if (!raw.empty()) device.upload(t.view().data, raw.data(), t.bytes());
  });
}

}  // namespace

Tensor::Tensor(device::Device& device, Dims dims, DType dtype, device::Purpose purpose)
    : storage_(std::make_shared<device::Storage>(device, dims.numel() * size_of(dtype), purpose)),
      dims_(dims),
      dtype_(dtype) {}

View Tensor::view() const {
  if (!storage_) return {};
  STRATA_CHECK(!storage_->dropped(), "use of a tensor ", dims_.text(), " after it was dropped");
  return {static_cast<std::byte*>(storage_->data()) + offset_, dtype_, dims_};
}

Tensor Tensor::reshape(Dims dims) const {
  STRATA_CHECK(dims.numel() == numel(), "reshape of ", dims_.text(), " to ", dims.text());
  Tensor t = *this;
  t.dims_ = dims;
  return t;
}

Tensor Tensor::slice(std::int64_t begin, std::int64_t end) const {
  STRATA_CHECK(dims_.rank > 0 && 0 <= begin && begin <= end && end <= dims_[0], "slice [", begin, ", ", end,
               ") of ", dims_.text());
  Dims dims = dims_;
  dims.extent[0] = 1;
  const std::int64_t row = dims.numel();
  dims.extent[0] = end - begin;
  return at(begin * row, dims);
}

Tensor Tensor::at(std::int64_t element, Dims dims) const {
  STRATA_CHECK(element >= 0 && element + dims.numel() <= numel(), "elements [", element, ", +", dims.numel(),
               ") of ", dims_.text());
  Tensor t = *this;
  t.offset_ += element * size_of(dtype_);
  t.dims_ = dims;
  return t;
}

std::vector<double> to_host(device::Device& device, const Tensor& t, const std::string& why) {
  return download<double>(device, t, why);
}
std::vector<std::int64_t> to_host_int(device::Device& device, const Tensor& t, const std::string& why) {
  return download<std::int64_t>(device, t, why);
}
void from_host(device::Device& device, const Tensor& t, const std::vector<double>& values) {
  store(device, t, values);
}
void from_host(device::Device& device, const Tensor& t, const std::vector<std::int64_t>& values) {
  store(device, t, values);
}

}  // namespace strata
