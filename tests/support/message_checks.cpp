
#include "comm/mesh.h"
#include "support/comm_checks.h"
#include "support/comm_rank.h"

namespace strata::test {
namespace {

using comm::Pending;
using comm::World;
using device::DeviceOptions;

// Around the ring, every type, none to a few megabytes. Everybody sends first.
void head_on(World& world, const DeviceOptions& options) {
  Rank r(world, options);
  if (r.size() == 1) return;
  for_all_types([&]<class T>() {
    for (const std::int64_t n : {0, 1, 1000, 70000}) {
      const Tensor x = r.filled<T>({n}, [&](auto i) { return term<T>(r.rank(), i); }), y = r.empty<T>({n});
      Pending sent = r.all->send(r.stream(), x, r.ahead(), 3, "to the next");
      Pending received = r.all->receive(r.stream(), y, r.behind(), 3);
      received.wait(r.stream());
      sent.wait(r.stream());
      r.expect<T>(
          y, [&](auto i) { return term<T>(r.behind(), i); }, concat("message of ", n));
    }
  });
}

// Received in another order than sent; of one tag, in the order sent.
void tags(World& world, const DeviceOptions& options) {
  Rank r(world, options);
  if (r.size() == 1) return;
  constexpr int kMessages = 60;
  const auto tag = [](int k) { return k % 7 == 0 ? 1000 : k; };
  const auto count = [](int k) { return std::int64_t(k % 7 == 0 ? 300 : 1 + k * 50); };
  std::vector<Pending> pending;
  std::vector<Tensor> in(kMessages);
  for (int k = 0; k < kMessages; ++k)
    pending.push_back(r.all->send(
        r.stream(), r.filled<float>({count(k)}, [&](auto i) { return term<float>(r.rank(), i + k); }),
        r.ahead(), tag(k)));
  std::vector<int> order;
  for (int k = 0; k < kMessages; k += 7) order.push_back(k);
  for (int k = kMessages - 1; k > 0; --k)
    if (k % 7) order.push_back(k);
  for (const int k : order) {
    in[k] = r.empty<float>({count(k)});
    pending.push_back(r.all->receive(r.stream(), in[k], r.behind(), tag(k)));
  }
  for (Pending& p : pending) p.wait(r.stream());
  for (int k = 0; k < kMessages; ++k)
    r.expect<float>(
        in[k], [&](auto i) { return term<float>(r.behind(), i + k); }, concat("message ", k));
}

// Begun on one stream and waited for on another.
void two_streams(World& world, const DeviceOptions& options) {
  Rank r(world, options);
  device::Stream side = r.device.make_stream();
  for (int k = 0; k < 20; ++k) {
    const Tensor x = r.filled<float>({50}, [&](auto i) { return term<float>(r.rank(), i + k); });
    device::Event written;
    r.stream().record(written);
    side.wait(written);
    Pending sum = r.all->all_reduce(side, x);
    sum.wait(r.stream());
    r.expect<float>(
        x, [&](auto i) { return naive_sum<float>(r.size(), i + k); }, "sum of another stream");
  }
}

// Same tags in other groups, and in collectives beside, do not meet.
void groups_apart(World& world, const DeviceOptions& options) {
  Rank r(world, options);
  if (r.size() == 1) return;
  const int low = r.rank() / 2 * 2;
  if (low + 1 == r.size()) return;
  const auto pair = world.group("pair", {low, low + 1}), again = world.group("pair", {low, low + 1});
  const int peer = 1 - pair->rank();
  const Tensor a = r.filled<float>({10}, [](auto) { return 1.0f; }),
               b = r.filled<float>({10}, [](auto) { return 2.0f; });
  const Tensor in_a = r.empty<float>({10}), in_b = r.empty<float>({10});
  Pending first = pair->send(r.stream(), a, peer, 0), second = again->send(r.stream(), b, peer, 0);
  Pending from_again = again->receive(r.stream(), in_b, peer, 0),
          from_pair = pair->receive(r.stream(), in_a, peer, 0);
  const Tensor sum = r.filled<float>({10}, [](auto) { return 3.0f; });
  pair->all_reduce(r.stream(), sum).wait(r.stream());
  for (Pending* p : {&from_again, &from_pair, &first, &second}) p->wait(r.stream());
  r.expect<float>(
      in_a, [](auto) { return 1.0f; }, "of the first group");
  r.expect<float>(
      in_b, [](auto) { return 2.0f; }, "of the second group");
  r.expect<float>(
      sum, [](auto) { return 6.0f; }, "sum of a pair");
}

void mesh(World& world, const DeviceOptions&) {
  const int size = world.size();
  const comm::MeshShape shape = size % 4 == 0   ? comm::MeshShape{size / 4, 4, 2}
                                : size % 2 == 0 ? comm::MeshShape{1, size, 2}
                                                : comm::MeshShape{size, 1, 1};
  const comm::Mesh mesh(world, shape);
  const auto worlds = [](comm::Communicator& c) {
    std::string text;
    for (int i = 0; i < c.size(); ++i) text += (i ? " " : "") + std::to_string(c.world_rank(i));
    expect(comm::gather_texts(c, text) == std::vector<std::string>(c.size(), text),
           c.name() + " is not one group");
    return text;
  };
  if (size == 8 && world.rank() == 6) {
    worlds(mesh.all());
    expect(worlds(mesh.pipeline()) == "2 6" && worlds(mesh.data()) == "4 5 6 7" &&
               worlds(mesh.expert()) == "6 7" && worlds(mesh.expert_data()) == "4 6" &&
               mesh.position() == "pp 1/2 dp 2/4 ep 0/2",
           "groups of rank 6 of 8");
  } else {
    for (comm::Communicator* c :
         {&mesh.all(), &mesh.pipeline(), &mesh.data(), &mesh.expert(), &mesh.expert_data()})
      worlds(*c);
  }
  expect(mesh.pipeline().rank() == mesh.pipeline_rank() && mesh.data().rank() == mesh.data_rank() &&
             mesh.expert().rank() == mesh.expert_rank() && mesh.all().rank() == world.rank(),
         "ranks in the mesh");
}

// Rank 1 sees what it waits for, and only then lets rank 0 send it.
void waiting(World& world, const DeviceOptions&) {
  Rank r(world, {});
  if (r.size() == 1) return;
  const Tensor x = r.filled<float>({4}, [](auto) { return 1.0f; }),
               word = r.filled<float>({1}, [](auto) { return 1.0f; });
  if (r.rank() == 0) {
    r.all->receive(r.stream(), word, 1, 5).wait(r.stream());
    r.all->send(r.stream(), x, 1, 4).wait(r.stream());
  } else if (r.rank() == 1) {
    Pending receive = r.all->receive(r.stream(), x, 0, 4, "hidden of micro-batch 3");
    std::vector<comm::Waiting> list;
    while (list.empty() || list[0].peers.empty()) list = world.waiting();
    expect(list.size() == 1 && list[0].seconds >= 0 && list[0].seconds < 60, "what is under way");
    const std::string text = comm::describe(list[0]);
    expect(text == concat("receive (hidden of micro-batch 3) from rank 0, tag 4, on rank 1 of ", r.size(),
                          " of all"),
           "description: " + text);
    r.all->send(r.stream(), word, 0, 5).wait(r.stream());
    receive.wait(r.stream());
    expect(world.waiting().empty(), "an ended operation is still listed");
  }
}

// A dropped receive takes its memory back, and its message goes to nobody else.
void dropped(World& world, const DeviceOptions& options) {
  Rank r(world, options);
  if (r.size() == 1) return;
  const Tensor y = r.filled<float>({1000}, [](auto) { return 5.0f; }), z = r.empty<float>({1000});
  { Pending never = r.all->receive(r.stream(), y, r.behind(), 8); }
  {
    Pending never = r.all->receive(r.stream(), y, r.behind(), 9);
    r.stream().synchronize();  // it has begun
  }
  r.all->barrier();
  const Tensor x = r.filled<float>({1000}, [](auto) { return 6.0f; });
  Pending sent = r.all->send(r.stream(), x, r.ahead(), 9);
  r.all->receive(r.stream(), z, r.behind(), 9).wait(r.stream());
  sent.wait(r.stream());
  r.expect<float>(
      z, [](auto) { return 6.0f; }, "message after a dropped receive");
  r.expect<float>(
      y, [](auto) { return 5.0f; }, "memory of a dropped receive");
}

}  // namespace

std::vector<CommCheck> message_checks() {
  return {{"HeadOn", head_on},           {"Tags", tags}, {"TwoStreams", two_streams},
          {"GroupsApart", groups_apart}, {"Mesh", mesh}, {"Waiting", waiting},
          {"Dropped", dropped}};
}

const std::vector<CommCheck>& comm_checks() {
  static const std::vector<CommCheck> all = [] {
    std::vector<CommCheck> checks = collective_checks();
    for (const CommCheck& c : message_checks()) checks.push_back(c);
    return checks;
  }();
  return all;
}

}  // namespace strata::test
