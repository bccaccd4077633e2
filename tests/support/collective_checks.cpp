
#include "support/comm_checks.h"
#include "support/comm_rank.h"

namespace strata::test {
namespace {

using comm::Pending;
using comm::World;
using device::DeviceOptions;

// Elements of everybody together; the longest needs several pieces.
template <class T>
std::vector<std::int64_t> counts(const Rank& r) {
  std::vector<std::int64_t> counts{0, 1, 5, 1023, 9001};
  if (std::is_same_v<T, float> && r.size() <= 4) counts.push_back(600007);
  return counts;
}

void all_reduce(World& world, const DeviceOptions& options) {
  Rank r(world, options);
  for_all_types([&]<class T>() {
    for (const std::int64_t n : counts<T>(r)) {
      const Tensor x = r.filled<T>({n}, [&](auto i) { return term<T>(r.rank(), i); });
      r.all->all_reduce(r.stream(), x).wait(r.stream());
      r.expect<T>(
          x, [&](auto i) { return naive_sum<T>(r.size(), i); }, concat("all_reduce of ", n));
    }
  });
}

void reduce_scatter(World& world, const DeviceOptions& options) {
  Rank r(world, options);
  for_all_types([&]<class T>() {
    for (const std::int64_t count : counts<T>(r)) {
      const std::int64_t n = (count + r.size() - 1) / r.size();
      const auto sum = [&](auto i) { return naive_sum<T>(r.size(), r.rank() * n + i); };
      const auto mine = [&](auto i) { return term<T>(r.rank(), i); };
      const Tensor x = r.filled<T>({r.size() * n}, mine), y = r.empty<T>({n});
      r.all->reduce_scatter(r.stream(), x, y).wait(r.stream());
      r.expect<T>(y, sum, concat("reduce_scatter to ", n));
      r.expect<T>(x, mine, "what reduce_scatter read");
      const Tensor part = x.slice(r.rank() * n, (r.rank() + 1) * n);
      r.all->reduce_scatter(r.stream(), x, part).wait(r.stream());
      r.expect<T>(part, sum, concat("reduce_scatter in place to ", n));
    }
  });
}

void all_gather(World& world, const DeviceOptions& options) {
  Rank r(world, options);
  for_all_types([&]<class T>() {
    for (const std::int64_t count : counts<T>(r)) {
      const std::int64_t n = (count + r.size() - 1) / r.size();
      const auto everybody = [&](auto i) { return term<T>(int(i / n), i % n); };
      const Tensor x = r.filled<T>({n}, [&](auto i) { return term<T>(r.rank(), i); });
      const Tensor y = r.empty<T>({r.size(), n});
      r.all->all_gather(r.stream(), x, y).wait(r.stream());
      r.expect<T>(y, everybody, concat("all_gather of ", n));
      const Tensor z = r.filled<T>(
          {r.size() * n}, [&](auto i) { return i / n == r.rank() ? term<T>(r.rank(), i % n) : T(9); });
      r.all->all_gather(r.stream(), z.slice(r.rank() * n, (r.rank() + 1) * n), z).wait(r.stream());
      r.expect<T>(z, everybody, concat("all_gather in place of ", n));
    }
  });
}

// `rows(from, to)` rows from one to another; row k of them has the value term(from * 1000 + to, k) in front.
template <class T, class Rows>
void exchange_rows(Rank& r, const Rows& rows, Dims row) {
  std::vector<std::int64_t> send, receive;
  std::vector<T> out, in;
  for (int peer = 0; peer < r.size(); ++peer) {
    send.push_back(rows(r.rank(), peer));
    receive.push_back(rows(peer, r.rank()));
    for (std::int64_t i = 0; i < send.back() * row.numel(); ++i)
      out.push_back(term<T>(r.rank() * 100 + peer, i));
    for (std::int64_t i = 0; i < receive.back() * row.numel(); ++i)
      in.push_back(term<T>(peer * 100 + r.rank(), i));
  }
  const auto dims = [&](std::size_t elements) {
    Dims d = row;
    d.extent[0] = std::int64_t(elements) / row.numel();
    return d;
  };
  const Tensor x = r.filled<T>(dims(out.size()), [&](auto i) { return out[i]; }),
               y = r.empty<T>(dims(in.size()));
  r.all->all_to_all(r.stream(), x, send, y, receive).wait(r.stream());
  r.expect<T>(
      y, [&](auto i) { return in[i]; }, "all_to_all");
}

void all_to_all(World& world, const DeviceOptions& options) {
  Rank r(world, options);
  for_all_types([&]<class T>() {
    exchange_rows<T>(r, [](int from, int to) { return (from * 3 + to * 5) % 4; }, {1, 2, 3});
    exchange_rows<T>(r, [](int, int) { return 0; }, {1, 6});
    exchange_rows<T>(r, [](int from, int) { return from == 0 ? 300 : 0; }, {1, 57});
  });
}

// Of two communicators, waited for from last to first.
void many_under_way(World& world, const DeviceOptions& options) {
  Rank r(world, options);
  const auto other = world.group("other", {[&] {
                                   std::vector<int> members(r.size());
                                   for (int i = 0; i < r.size(); ++i) members[i] = r.size() - 1 - i;
                                   return members;
                                 }()});
  expect(other->rank() == r.size() - 1 - r.rank() && other->world_rank(other->rank()) == r.rank(),
         "the order of members is not the order of ranks");
  std::vector<Tensor> tensors;
  std::vector<Pending> pending;
  const auto count = [](int k) { return std::int64_t(k % 10 == 0 ? 30000 : 10 + k); };
  for (int k = 0; k < 40; ++k) {
    tensors.push_back(r.filled<float>({count(k)}, [&](auto i) { return term<float>(r.rank(), i + k); }));
    pending.push_back((k % 2 ? *other : *r.all).all_reduce(r.stream(), tensors.back()));
  }
  for (int k = 39; k >= 0; --k) pending[k].wait(r.stream());
  for (int k = 0; k < 40; k += 2)
    r.expect<float>(
        tensors[k], [&](auto i) { return naive_sum<float>(r.size(), i + k); }, "one of many sums");
  for (int k = 1; k < 40; k += 2)
    r.expect<float>(
        tensors[k],
        [&](auto i) {
          float sum = term<float>(r.size() - 1, i + k);
          for (int m = r.size() - 2; m >= 0; --m) sum += term<float>(m, i + k);
          return sum;
        },
        "one of many sums in the other order");
}

void texts_and_barrier(World& world, const DeviceOptions& options) {
  Rank r(world, options);
  const auto text = [](int rank) { return std::string(rank * 5, char('a' + rank)); };  // rank 0 has none
  for (int k = 0; k < 3; ++k) {
    const std::vector<std::string> texts = comm::gather_texts(*r.all, text(r.rank()));
    expect(int(texts.size()) == r.size(), "gather_texts does not have a text of everyone");
    for (int i = 0; i < r.size(); ++i)
      expect(texts[i] == text(i), "gather_texts of rank " + std::to_string(i));
    r.all->barrier();
  }
}

// Every byte that leaves, of the algorithms that plan.h names.
void traffic(World& world, const DeviceOptions& options) {
  Rank r(world, options);
  const std::int64_t n = r.size(), bytes = 100000 * 4, others = n - 1;
  const Tensor x = r.filled<float>({n * 100000}, [](auto) { return 1.0f; });
  const Tensor part = x.slice(r.rank() * 100000, (r.rank() + 1) * 100000);
  auto sent = [&, before = std::int64_t(0)]() mutable {
    return r.all->traffic().bytes - std::exchange(before, r.all->traffic().bytes);
  };
  r.all->reduce_scatter(r.stream(), x, part).wait(r.stream());
  expect(sent() == others * bytes, "bytes of reduce_scatter");
  r.all->all_gather(r.stream(), part, x).wait(r.stream());
  expect(sent() == others * bytes, "bytes of all_gather");
  r.all->all_reduce(r.stream(), x).wait(r.stream());
  expect(sent() == 2 * others * bytes, "bytes of all_reduce");
  r.all
      ->all_to_all(r.stream(), x.reshape({n, 100000}), std::vector<std::int64_t>(n, 1),
                   r.empty<float>({n, 100000}), std::vector<std::int64_t>(n, 1))
      .wait(r.stream());
  expect(sent() == others * bytes, "bytes of all_to_all");
}

}  // namespace

std::vector<CommCheck> collective_checks() {
  return {
      {"AllReduce", all_reduce}, {"ReduceScatter", reduce_scatter}, {"AllGather", all_gather},
      {"AllToAll", all_to_all},  {"ManyUnderWay", many_under_way},  {"TextsAndBarrier", texts_and_barrier},
      {"Traffic", traffic}};
}

}  // namespace strata::test
