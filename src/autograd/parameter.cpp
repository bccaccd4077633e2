#include "autograd/parameter.h"

#include <algorithm>

#include "base/philox.h"
#include "kernels/jobs.h"

namespace strata {
namespace {

constexpr std::int64_t kAlign = 16;  // elements: every parameter starts on a cache line

std::int64_t padded(std::int64_t n) { return (n + kAlign - 1) / kAlign * kAlign; }

// A layer's parameters stay together; the end of the model, without a layer, is one bucket.
bool has_room(const Bucket& b, const Parameter& p, std::int64_t bucket_size) {
  if (p.layer < 0 || b.parameters.back()->layer == p.layer) return true;
  std::int64_t n = 0;
  for (const Parameter* q : b.parameters) n += q->dims.numel();
  return n < bucket_size;
}

}  // namespace

void write_part(device::Device& device, const Tensor& part, std::int64_t begin,
                const std::vector<double>& values, std::int64_t at) {
  const std::int64_t first = std::max(begin, at);
  const std::int64_t last = std::min(begin + part.numel(), at + std::int64_t(values.size()));
  if (first < last)
    from_host(device, part.at(first - begin, {last - first}),
              std::vector<double>(values.begin() + (first - at), values.begin() + (last - at)));
}

Parameter& ParameterStore::add(ParameterSpec spec) {
  STRATA_CHECK(!device_, "parameter ", spec.name, " is added after the layout was fixed");
  if (spec.slices.empty()) spec.slices.push_back({spec.name, 0, spec.dims});
  if (const auto it = by_name_.find(spec.slices.front().name); spec.shared && it != by_name_.end()) {
    Parameter& there = *it->second.parameter;
    STRATA_CHECK(there.shared && there.dims == spec.dims, "two different parameters are called ", spec.name);
    return there;
  }
  Parameter& p = parameters_.emplace_back();
  static_cast<ParameterSpec&>(p) = std::move(spec);
  p.layer = p.shared ? -1 : layer_;
  for (const NamedSlice& s : p.slices) {
    const bool fresh = by_name_.emplace(s.name, Found{&p, nullptr, s}).second;
    STRATA_CHECK(fresh, "two parameters are called ", s.name);
  }
  return p;
}

Buffer& ParameterStore::add_buffer(std::string name, Dims dims) {
  STRATA_CHECK(!device_, "buffer ", name, " is added after the layout was fixed");
  Buffer& b = buffers_.emplace_back(Buffer{std::move(name), dims, {}});
  const bool fresh = by_name_.emplace(b.name, Found{nullptr, &b, {b.name, 0, dims}}).second;
  STRATA_CHECK(fresh, "two parameters are called ", b.name);
  return b;
}

void ParameterStore::allocate(device::Device& device, DType compute, bool gradients, Shards shards) {
  device_ = &device;
  const DType full = acc_of(compute);
  for (Parameter& p : parameters_) {
    auto same = [&](const Bucket& b) {
      return b.group == p.group && b.precision == p.precision && b.decay == p.decay &&
             b.holders == p.holders &&
             (shards.of(p.group).size == 1 ||
              ((b.layer < 0) == (p.layer < 0) && has_room(b, p, shards.bucket_size)));
    };
    auto it = std::find_if(buckets_.begin(), buckets_.end(), same);
    if (it == buckets_.end())
      it = buckets_.insert(it, Bucket{.group = p.group,
                                      .precision = p.precision,
                                      .decay = p.decay,
                                      .holders = p.holders,
                                      .layer = p.layer});
    it->layer = std::min(it->layer, p.layer);
    it->parameters.push_back(&p);
  }
  for (Bucket& b : buckets_) {
    std::int64_t n = 0;
    for (const Parameter* p : b.parameters) n += padded(p->dims.numel());
    const auto [size, rank] = shards.of(b.group);
    const std::int64_t step = kAlign * size;
    n = (n + step - 1) / step * step;
    const DType type = b.precision == Precision::Full ? full : compute;
    b.value = Tensor(device, {n}, type, device::Purpose::Parameters);
    b.master = b.value;
    if (type != full) {
      const std::int64_t part = shards.masters ? n / size : n;
      b.master = Tensor(device, {part}, full, device::Purpose::Parameters);
      b.master_begin = shards.masters ? rank * part : 0;
    }
    if (gradients) b.grad = Tensor(device, {n}, full, device::Purpose::Gradients);
    std::int64_t at = 0;
    for (Parameter* p : b.parameters) {
      p->bucket = &b;
      p->bucket_offset = at;
      p->value = b.value.at(at, p->dims);
      if (gradients) p->grad = b.grad.at(at, p->dims);
      at += padded(p->dims.numel());
    }
    // The padding between parameters is updated with the rest: it must hold numbers.
    device.compute().run(kernels::Fill{.y = b.value, .value = 0});
    if (b.has_copies()) device.compute().run(kernels::Fill{.y = b.master, .value = 0});
  }
  for (Buffer& b : buffers_) {
    b.value = Tensor(device, b.dims, full, device::Purpose::Parameters);
    device.compute().run(kernels::Fill{.y = b.value, .value = 0});
  }
  zero_grads();
}

void ParameterStore::initialize(std::uint64_t seed) {
  if (device_->dry()) return;
  for (Parameter& p : parameters_)
    for (const NamedSlice& s : p.slices) {
      const Philox random(seed, s.name);
      std::vector<double> values(s.dims.numel());
#pragma omp parallel for schedule(static)
      for (std::int64_t i = 0; i < std::int64_t(values.size()); ++i)
        values[i] =
            (p.init.base ? p.init.base(i) : 0.0) + (p.init.std != 0 ? p.init.std * random.normal(i) : 0.0);
      set(s.name, values);
    }
}

void ParameterStore::zero_grads() {
  for (Bucket& b : buckets_)
    if (b.grad.defined()) device_->compute().run(kernels::Fill{.y = b.grad, .value = 0});
}

std::int64_t ParameterStore::count() const {
  std::int64_t n = 0;
  for (const Parameter& p : parameters_) n += p.dims.numel();
  return n;
}

Tensor ParameterStore::Found::master() const {
  if (buffer) return buffer->value;
  const Bucket& b = *parameter->bucket;
  STRATA_CHECK(b.master.numel() == b.value.numel(), "only a part of the master of ", slice.name, " is here");
  return b.master.at(parameter->bucket_offset + slice.offset, slice.dims);
}
Tensor ParameterStore::Found::grad() const { return parameter->grad.at(slice.offset, slice.dims); }

void ParameterStore::set(const std::string& name, const std::vector<double>& values) {
  const auto& [parameter, buffer, slice] = by_name_.at(name);
  if (buffer) return from_host(*device_, buffer->value, values);
  from_host(*device_, parameter->value.at(slice.offset, slice.dims), values);
  const Bucket& b = *parameter->bucket;
  if (!b.has_copies()) return;
  write_part(*device_, b.master, b.master_begin, values, parameter->bucket_offset + slice.offset);
}

}  // namespace strata
