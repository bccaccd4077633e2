// Trained weights live in flat buckets keyed by (reduction group, holders, precision, decay): value, fp32
// master and gradient of a bucket are one tensor each, and a Parameter's value and gradient are views into
// them. Stacked parameters (experts, gate|up) carry their published names as slices.
#pragma once
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tensor/tensor.h"

namespace strata {

enum class ReductionGroup { Dense, Expert };  // who sums its gradient, once there are several ranks
enum class Precision {
  Compute,
  Full
};                             // Full: float32 (float64 in float64 mode) also when computing in bfloat16
enum class Decay { Yes, No };  // weight decay

// Initial value of element i: base(i) + std * normal(seed, name, i).
struct Init {
  double std = 0;
  std::function<double(std::int64_t)> base;  // empty: 0
  static Init normal(double std) { return {std, {}}; }
  static Init constant(double value) {
    return {0, [value](std::int64_t) { return value; }};
  }
};

// A named, contiguous part of a parameter: the unit of files and of initial values.
struct NamedSlice {
  std::string name;
  std::int64_t offset = 0;  // in elements, from the parameter's start
  Dims dims;
};

struct ParameterSpec {
  std::string name;
  Dims dims;
  Init init;
  Decay decay = Decay::Yes;
  Precision precision = Precision::Compute;
  ReductionGroup group = ReductionGroup::Dense;
  std::vector<NamedSlice> slices = {};  // empty: one slice, the parameter itself
  bool shared = false;  // several stages of a model have it: adding it again gives the same parameter
};

struct Bucket;

struct Parameter : ParameterSpec {
  Tensor value;  // what kernels read
  Tensor grad;   // accumulates; undefined where no gradient is wanted
  const Bucket* bucket = nullptr;
  std::int64_t bucket_offset = 0;  // its first element there
  int layer = -1;  // its gradient is complete when backward has left this layer; -1: only at the end
  std::vector<int> holders;  // pipeline ranks that have it too, this one among them; empty: only this one
};

struct Bucket {
  ReductionGroup group;
  Precision precision;
  Decay decay;
  std::vector<int> holders;  // as of its parameters
  int layer = -1;            // the lowest of its parameters': then its gradient is complete
  Tensor value = {};         // [n]
  Tensor grad = {};          // [n]
  // What the optimizer updates: elements [master_begin, master_begin + master.numel()). The same memory as
  // `value` unless computing in bfloat16.
  Tensor master = {};
  std::int64_t master_begin = 0;
  std::vector<Parameter*> parameters = {};

  bool has_copies() const { return master.storage() != value.storage(); }
};

// Into how many equal parts buckets shall divide: their sizes are padded to multiples of it. A bucket that is
// to be divided takes no further layer's parameters beyond `bucket_size` elements, so that its sum can begin
// early.
struct Shards {
  struct Group {
    int size = 1, rank = 0;  // this rank's part
  };
  Group dense, expert;
  std::int64_t bucket_size = std::int64_t(1) << 62;
  bool masters = false;  // of masters that are no values this rank has its part only
  Group of(ReductionGroup group) const { return group == ReductionGroup::Dense ? dense : expert; }
};

// State that is saved and loaded like a weight but not trained by gradient (router biases).
struct Buffer {
  std::string name;
  Dims dims;
  Tensor value;
};

// Writes what of `values`, elements [at, at + values.size()) of a bucket, lies in `part`, whose first element
// is element `begin` of that bucket.
void write_part(device::Device& device, const Tensor& part, std::int64_t begin,
                const std::vector<double>& values, std::int64_t at);

class ParameterStore {
 public:
  ParameterStore() = default;
  ParameterStore(const ParameterStore&) = delete;

  // References stay valid. A name used twice is an error, unless both times it is shared.
  Parameter& add(ParameterSpec spec);
  Buffer& add_buffer(std::string name, Dims dims);
  // Parameters added from here on, unless shared, are of this layer.
  void begin_layer(int layer) { layer_ = layer; }

  // Lays out the buckets; after this no parameter can be added. Without gradients nothing is trained.
  void allocate(device::Device& device, DType compute, bool gradients = true, Shards shards = {});
  // Values by (seed, name, element index) alone; buffers become zero.
  void initialize(std::uint64_t seed);
  void zero_grads();

  std::vector<Bucket>& buckets() { return buckets_; }
  std::deque<Parameter>& parameters() { return parameters_; }
  std::deque<Buffer>& buffers() { return buffers_; }
  std::int64_t count() const;  // trained elements

  struct Found {
    Parameter* parameter = nullptr;  // null: a buffer
    Buffer* buffer = nullptr;
    NamedSlice slice;
    Tensor master() const;  // of a master that is here whole
    Tensor grad() const;
  };
  // Every slice and buffer by its published name, sorted.
  const std::map<std::string, Found>& by_name() const { return by_name_; }
  // Overwrites value and master. The count must match.
  void set(const std::string& name, const std::vector<double>& values);

 private:
  device::Device* device_ = nullptr;
  int layer_ = -1;
  std::deque<Parameter> parameters_;
  std::deque<Buffer> buffers_;
  std::vector<Bucket> buckets_;  // fixed once laid out
  std::map<std::string, Found> by_name_;
};

}  // namespace strata
