#include "comm/message_communicator.h"

#include <algorithm>
#include <set>
#include <utility>

#include "comm/checked.h"

namespace strata::comm {

std::shared_ptr<Operation> MessageCommunicator::transfer(const char* operation, ConstView x, int tag,
                                                         std::string what, Plan plan) {
  Waiting label{.operation = operation,
                .communicator = name(),
                .what = std::move(what),
                .shape = concat(x.dims.text(), " ", name_of(x.dtype)),
                .rank = rank(),
                .size = size(),
                .tag = tag};
  for (int i = 0; i < size(); ++i) label.members.push_back(world_rank(i));
  return std::make_shared<Transfer>(progress_, channel_, std::move(plan), std::move(label));
}

std::shared_ptr<Operation> MessageCommunicator::collective(const char* operation, ConstView x,
                                                           std::int64_t count, std::string what,
                                                           const std::function<Plan(Place)>& plan) {
  const int number = std::exchange(collectives_, (collectives_ + 1) % kTags);
  if (!checked_)
    return transfer(operation, x, number, std::move(what), plan({rank(), size(), kTags + number}));
  auto texts = std::make_shared<Descriptions>(
      size(), rank(), concat(operation, " of ", count, " ", name_of(x.dtype), " (", what, ")"));
  auto exchange =
      transfer("comparison", x, number, what,
               plan_all_gather(texts->mine(), texts->all(), {rank(), size(), 2 * kTags + number}));
  auto real = transfer(operation, x, number, std::move(what), plan({rank(), size(), kTags + number}));
  return checked(std::move(texts), std::move(exchange), std::move(real), name(), number);
}

std::shared_ptr<Operation> MessageCommunicator::make_send(ConstView x, int to, int tag, std::string what) {
  return transfer("send", x, tag, std::move(what), plan_send(x, to, tag));
}

std::shared_ptr<Operation> MessageCommunicator::make_receive(View y, int from, int tag, std::string what) {
  return transfer("receive", y, tag, std::move(what), plan_receive(y, from, tag));
}

std::shared_ptr<Operation> MessageCommunicator::make_all_reduce(View x, std::string what) {
  return collective("all_reduce", x, x.numel(), std::move(what),
                    [&](Place place) { return plan_all_reduce(x, place); });
}

std::shared_ptr<Operation> MessageCommunicator::make_reduce_scatter(ConstView x, View y, std::string what) {
  return collective("reduce_scatter", x, x.numel(), std::move(what),
                    [&](Place place) { return plan_reduce_scatter(x, y, place); });
}

std::shared_ptr<Operation> MessageCommunicator::make_all_gather(ConstView x, View y, std::string what) {
  return collective("all_gather", x, x.numel(), std::move(what),
                    [&](Place place) { return plan_all_gather(x, y, place); });
}

std::shared_ptr<Operation> MessageCommunicator::make_all_to_all(ConstView x, std::vector<std::int64_t> send,
                                                                View y, std::vector<std::int64_t> receive,
                                                                std::string what) {
  Dims row = x.dims;
  row.extent[0] = 1;
  return collective("all_to_all", x, row.numel(), std::move(what), [&](Place place) {
    return plan_all_to_all(x, std::move(send), y, std::move(receive), place);
  });
}

int rank_among(const std::string& name, const std::vector<int>& members, int rank, int size) {
  std::set<int> seen;
  for (const int member : members)
    STRATA_CHECK(member >= 0 && member < size && seen.insert(member).second, "group ", name, " has rank ",
                 member, ": each rank once, of a world of ", size);
  const auto found = std::find(members.begin(), members.end(), rank);
  STRATA_CHECK(found != members.end(), "group ", name, " is made on rank ", rank, ", which is not a member");
  return int(found - members.begin());
}

std::string describe(const Waiting& w) {
  std::string text = w.operation;
  if (!w.what.empty()) text += " (" + w.what + ")";
  const bool message = w.operation == "send" || w.operation == "receive";
  if (!w.peers.empty()) {
    text += w.operation == "send" ? " to rank" : w.operation == "receive" ? " from rank" : " with rank";
    for (std::size_t i = 0; i < w.peers.size(); ++i) text += (i ? ", " : " ") + std::to_string(w.peers[i]);
  }
  text += (message ? ", tag " : ", number ") + std::to_string(w.tag);
  return concat(text, ", on rank ", w.rank, " of ", w.size, " of ", w.communicator);
}

}  // namespace strata::comm
