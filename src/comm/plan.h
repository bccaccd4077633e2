// An operation as a list of rounds: messages to post, then something to do once they are done. Pure functions
// of sizes and ranks, so that every member knows all messages of all others.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "base/view.h"
#include "comm/channel.h"
#include "comm/communicator.h"

namespace strata::comm {

struct Round {
  std::vector<Message> messages;
  std::function<void()> then;  // may be empty
};

struct Plan {
  int rounds = 0;
  int under_way = 1;         // round i is posted when round i - under_way is done; rounds end in order
  std::int64_t staging = 0;  // bytes that the rounds share
  Traffic traffic = {};      // what this rank sends in all rounds
  std::function<Round(int index, std::byte* staging)> round = {};
};

struct Place {
  int rank, size, tag;
};

Plan plan_send(ConstView x, int to, int tag);
Plan plan_receive(View y, int from, int tag);
// Every part goes to its owner, who adds in the order of ranks; pieces, so that little memory is needed.
Plan plan_reduce_scatter(ConstView x, View y, Place place);
// The same, and every owner sends its sum around; short vectors go to everybody whole. Same bits either way.
Plan plan_all_reduce(View x, Place place);
Plan plan_all_gather(ConstView x, View y, Place place);
Plan plan_all_to_all(ConstView x, std::vector<std::int64_t> send, View y, std::vector<std::int64_t> receive,
                     Place place);

}  // namespace strata::comm
