#include "comm/sum.h"

#include <algorithm>

namespace strata::comm {
namespace {

constexpr std::int64_t kBlock = 1024;

template <class T, class Sum>
void sum_typed(const std::vector<const std::byte*>& terms, T* out, std::int64_t count) {
  Sum sums[kBlock];
  for (std::int64_t begin = 0; begin < count; begin += kBlock) {
    const std::int64_t n = std::min(kBlock, count - begin);
    const T* first = reinterpret_cast<const T*>(terms[0]) + begin;
#pragma omp simd
    for (std::int64_t i = 0; i < n; ++i) sums[i] = Sum(first[i]);
    for (std::size_t t = 1; t < terms.size(); ++t) {
      const T* term = reinterpret_cast<const T*>(terms[t]) + begin;
#pragma omp simd
      for (std::int64_t i = 0; i < n; ++i) sums[i] += Sum(term[i]);
    }
#pragma omp simd
    for (std::int64_t i = 0; i < n; ++i) out[begin + i] = T(sums[i]);
  }
}

}  // namespace

void sum_terms(DType type, const std::vector<const std::byte*>& terms, std::byte* out, std::int64_t count) {
  switch (type) {
    case DType::Float32:
      return sum_typed<float, float>(terms, reinterpret_cast<float*>(out), count);
    case DType::Float64:
      return sum_typed<double, double>(terms, reinterpret_cast<double*>(out), count);
    case DType::BFloat16:
      return sum_typed<bfloat16, float>(terms, reinterpret_cast<bfloat16*>(out), count);
    case DType::Int32:
      return sum_typed<std::int32_t, std::int32_t>(terms, reinterpret_cast<std::int32_t*>(out), count);
    case DType::Int64:
      return sum_typed<std::int64_t, std::int64_t>(terms, reinterpret_cast<std::int64_t*>(out), count);
  }
}

}  // namespace strata::comm
