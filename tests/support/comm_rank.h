// One rank of a check: its device, the communicator of all, tensors with values that depend on the rank.
#pragma once
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <type_traits>
#include <vector>

#include "base/error.h"
#include "comm/world.h"

namespace strata::test {

// Of term `rank`, element i: signs and sizes differ, so that another order of additions gives other bits.
template <class T>
T term(int rank, std::int64_t i) {
  const std::int64_t x = (i * 7919 + rank * 104729 + 13) % 2003 - 1001;
  if constexpr (std::is_integral_v<T>) return T(x * 1000 + rank);
  return T(float(x) / 7.0f * (rank % 2 ? 1000.0f : 0.001f));
}

template <class T>
T naive_sum(int ranks, std::int64_t i) {
  using Sum = std::conditional_t<std::is_same_v<T, bfloat16>, float, T>;
  Sum sum = Sum(term<T>(0, i));
  for (int r = 1; r < ranks; ++r) sum = Sum(sum + Sum(term<T>(r, i)));
  return T(sum);
}

struct Rank {
  comm::World& world;
  device::Device device;
  std::unique_ptr<comm::Communicator> all;

  Rank(comm::World& world, const device::DeviceOptions& options) : world(world), device(options) {
    std::vector<int> members(world.size());
    std::iota(members.begin(), members.end(), 0);
    all = world.group("all", members);
  }
  device::Stream& stream() { return device.compute(); }
  int rank() const { return world.rank(); }
  int size() const { return world.size(); }
  int ahead(int by = 1) const { return (rank() + by) % size(); }
  int behind(int by = 1) const { return (rank() + size() - by) % size(); }

  template <class T>
  Tensor empty(Dims dims) {
    return Tensor(device, dims, dtype_of<T>());
  }
  // Element i is f(i).
  template <class T, class F>
  Tensor filled(Dims dims, const F& f) {
    Tensor t = empty<T>(dims);
    std::vector<T> values(t.numel());
    for (std::int64_t i = 0; i < t.numel(); ++i) values[i] = f(i);
    if (t.numel() > 0) device.upload(t.view().data, values.data(), t.bytes());
    return t;
  }
  // Bit for bit: element i is f(i).
  template <class T, class F>
  void expect(const Tensor& t, const F& f, const std::string& what) {
    std::vector<T> values(t.numel());
    if (t.numel() > 0) device.read_back(values.data(), t.view().data, t.bytes(), "test");
    for (std::int64_t i = 0; i < t.numel(); ++i) {
      const T wanted = f(i);
      if (std::memcmp(&values[i], &wanted, sizeof(T)) != 0)
        throw Error(concat(what, ", ", name_of(dtype_of<T>()), ", ", size(), " ranks: element ", i, " of ",
                           t.numel(), " is ", double(values[i]), " and not ", double(wanted)));
    }
  }
};

template <class F>
void for_all_types(const F& f) {
  f.template operator()<double>();
  f.template operator()<float>();
  f.template operator()<bfloat16>();
  f.template operator()<std::int32_t>();
  f.template operator()<std::int64_t>();
}

inline void expect(bool right, const std::string& what) {
  if (!right) throw Error(what);
}

// The sentence that run_threads throws; empty if it does not.
template <class Failure = Error>
std::string failure_of(int ranks, const std::function<void(comm::World&)>& rank_main) {
  try {
    comm::run_threads(ranks, rank_main);
  } catch (const Failure& e) {
    return e.what();
  }
  return {};
}

}  // namespace strata::test
