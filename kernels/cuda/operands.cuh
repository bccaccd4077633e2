// What kernels take instead of views. A is the type that they compute in: float, for float32 and bfloat16
// operands, or double. Elements move in packs of kPack neighbours where all rows are aligned to that, else
// one at a time.
#pragma once
#include "base/view.h"
#include "kernels/cuda/dialect.h"

namespace strata::cuda {

template <class A>
struct Input {
  const void* data = nullptr;
  bool narrow = false;  // bfloat16 instead of A
};
template <class A>
struct Output {
  void* data = nullptr;
  bool narrow = false, accumulate = false;
};

template <int kPack, class A>
__device__ __forceinline__ Pack<A, kPack> load(const Input<A>& from, std::int64_t at) {
  if constexpr (std::is_same_v<A, float>)
    if (from.narrow) {
      const auto few = load_pack<kPack>(static_cast<const bf16*>(from.data) + at);
      Pack<A, kPack> wide;
      UNROLL for (int n = 0; n < kPack; ++n) wide.at[n] = A(few.at[n]);
      return wide;
    }
  return load_pack<kPack>(static_cast<const A*>(from.data) + at);
}

template <int kPack, class T, class A>
__device__ __forceinline__ void store_as(T* to, const Pack<A, kPack>& value, bool accumulate) {
  Pack<T, kPack> result;
  if (accumulate) {
    result = load_pack<kPack>(to);
    UNROLL for (int n = 0; n < kPack; ++n) result.at[n] = T(A(result.at[n]) + value.at[n]);
  } else {
    UNROLL for (int n = 0; n < kPack; ++n) result.at[n] = T(value.at[n]);
  }
  store_pack(to, result);
}
template <int kPack, class A>
__device__ __forceinline__ void store(const Output<A>& to, std::int64_t at, const Pack<A, kPack>& value) {
  if constexpr (std::is_same_v<A, float>)
    if (to.narrow) return store_as(static_cast<bf16*>(to.data) + at, value, to.accumulate);
  store_as(static_cast<A*>(to.data) + at, value, to.accumulate);
}

template <class A, int kPack>
__device__ __forceinline__ Pack<A, kPack> zeros() {
  Pack<A, kPack> pack;
  UNROLL for (int n = 0; n < kPack; ++n) pack.at[n] = A(0);
  return pack;
}
// to += factor * x.
template <class A, int kPack>
__device__ __forceinline__ void add(Pack<A, kPack>& to, A factor, const Pack<A, kPack>& x) {
  UNROLL for (int n = 0; n < kPack; ++n) to.at[n] += factor * x.at[n];
}
template <class A, int kPack>
__device__ __forceinline__ A dot(const Pack<A, kPack>& x, const Pack<A, kPack>& y) {
  A sum = 0;
  UNROLL for (int n = 0; n < kPack; ++n) sum += x.at[n] * y.at[n];
  return sum;
}

// Turns the views of one job into operands: checks type and shape, and notes whether rows of `width` elements
// can move in packs.
template <class A>
class Operands {
 public:
  Operands(const char* job, std::int64_t width) : job_(job), packs_(width % kWidest == 0) {}

  Input<A> input(const ConstView& view, const Dims& dims, const char* name) {
    check(view, dims, name, true);
    return {view.data, view.dtype != dtype_of<A>()};
  }
  Output<A> output(const View& view, const Dims& dims, const char* name, Write mode = Write::Overwrite) {
    check(view, dims, name, true);
    return {view.data, view.dtype != dtype_of<A>(), mode == Write::Accumulate};
  }
  Output<A> output(const Grad& grad, const Dims& dims, const char* name) {
    return output(grad.view, dims, name, grad.mode);
  }
  // Weights and statistics; nullptr if the view is empty.
  const A* full(const ConstView& view, const Dims& dims, const char* name) {
    check(view, dims, name, false);
    return static_cast<const A*>(view.data);
  }
  A* full(const View& view, const Dims& dims, const char* name) {
    check(view, dims, name, false);
    return static_cast<A*>(view.data);
  }
  const char* job() const { return job_; }

  // Calls launch<kPack>().
  template <class F>
  void with_packs(F&& launch) const {
    if (packs_)
      launch.template operator()<kWidest>();
    else
      launch.template operator()<1>();
  }

 private:
  static constexpr int kWidest = 16 / sizeof(A);

  void check(const ConstView& view, const Dims& dims, const char* name, bool may_be_narrow) {
    if (!view) return;
    const bool narrow = may_be_narrow && view.dtype == DType::BFloat16 && std::is_same_v<A, float>;
    if (view.dtype != dtype_of<A>() && !narrow)
      throw Error(concat(job_, ": ", name, " is ", name_of(view.dtype), ", not ", name_of(dtype_of<A>()),
                         may_be_narrow && std::is_same_v<A, float> ? " or bfloat16" : ""));
    if (view.dims != dims)
      throw Error(concat(job_, ": ", name, " is ", view.dims.text(), ", not ", dims.text()));
    packs_ = packs_ && reinterpret_cast<std::uintptr_t>(view.data) % 16 == 0;
  }

  const char* job_;
  bool packs_;
};

}  // namespace strata::cuda
