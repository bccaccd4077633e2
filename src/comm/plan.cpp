#include "comm/plan.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "comm/sum.h"

namespace strata::comm {
namespace {

constexpr std::int64_t kTiny = 4096;  // bytes up to which an all_reduce sends everything to everybody
// Bytes of all pieces of one round: few, so that sums find them in the cache; more in large groups, since
// pieces below kPiece cost as messages and not as bytes; never beyond kMost.
constexpr std::int64_t kStaging = 1 << 20, kPiece = 1 << 16, kMost = 1 << 25;

std::byte* bytes_of(const void* data) { return static_cast<std::byte*>(const_cast<void*>(data)); }

void copy_bytes(const std::byte* from, std::byte* to, std::int64_t bytes) {
  if (bytes > 0 && from != to) std::memcpy(to, from, bytes);
}

Message sent(int to, int tag, std::byte* data, std::int64_t bytes) {
  return {Message::Way::Send, to, tag, data, bytes};
}
Message received(int from, int tag, std::byte* data, std::int64_t bytes) {
  return {Message::Way::Receive, from, tag, data, bytes};
}

// Those of other members: the next one's first, so that not all begin with member 0.
template <class F>
void for_others(const Place& place, const F& f) {
  for (int i = 1; i < place.size; ++i) f((place.rank + i) % place.size);
}

// `count` elements in `size` parts as even as can be, each part in `pieces` pieces. Two rounds of them are
// staged: 2 MiB in up to 16 members, 128 KiB a member in up to 512, 64 MiB in any; 144 bytes a member more
// for alignment.
struct Parts {
  std::int64_t count, element;  // elements, and bytes of one
  int size, pieces;

  Parts(std::int64_t count, std::int64_t element, int size) : count(count), element(element), size(size) {
    const std::int64_t longest = (count + size - 1) / size * element;
    const std::int64_t piece = std::max(kStaging / size, std::min(kPiece, kMost / size));
    pieces = int(std::max<std::int64_t>(1, (longest + piece - 1) / piece));
  }
  std::int64_t begin(int part) const { return count / size * part + count % size * part / size; }
  std::int64_t length(int part) const { return begin(part + 1) - begin(part); }
  std::int64_t begin(int part, int piece) const {
    return begin(part) + length(part) / pieces * piece + length(part) % pieces * piece / pieces;
  }
  std::int64_t length(int part, int piece) const { return begin(part, piece + 1) - begin(part, piece); }
  // Of the longest piece of a part, in bytes, rounded so that every element stays aligned.
  std::int64_t slot(int part) const { return ((length(part) / pieces + 1) * element + 63) / 64 * 64; }

  // What is sent of one part: nothing of its empty pieces.
  Traffic whole(int part) const {
    return {length(part) * element, std::min<std::int64_t>(length(part), pieces)};
  }
  // Of all parts: count % size of them are one element longer than the others.
  Traffic whole() const {
    const std::int64_t n = count / size, longer = count % size;
    return {count * element, (size - longer) * std::min<std::int64_t>(n, pieces) +
                                 longer * std::min<std::int64_t>(n + 1, pieces)};
  }
  // Every part but its own leaves a rank that scatters.
  Traffic scattered(int rank) const {
    const Traffic all = whole(), own = whole(rank);
    return {all.bytes - own.bytes, all.messages - own.messages};
  }
  // Its own goes to everybody else when it gathers.
  Traffic gathered(int rank) const {
    const Traffic own = whole(rank);
    return {(size - 1) * own.bytes, (size - 1) * own.messages};
  }
};

// Piece `piece` of every part to its owner, who adds up and writes at `out` (of its part).
Round scatter_round(const Parts& parts, DType type, std::byte* x, std::byte* out, Place place, int piece,
                    std::byte* staging) {
  Round round;
  const std::int64_t mine = parts.length(place.rank, piece), slot = parts.slot(place.rank);
  std::vector<const std::byte*> terms(place.size);
  terms[place.rank] = x + parts.begin(place.rank, piece) * parts.element;
  std::byte* next = staging + piece % 2 * (place.size - 1) * slot;
  for_others(place, [&](int peer) {
    if (const std::int64_t n = parts.length(peer, piece); n > 0)
      round.messages.push_back(
          sent(peer, place.tag, x + parts.begin(peer, piece) * parts.element, n * parts.element));
    if (mine > 0) round.messages.push_back(received(peer, place.tag, next, mine * parts.element));
    terms[peer] = next;
    next += slot;
  });
  std::byte* to = out + (parts.begin(place.rank, piece) - parts.begin(place.rank)) * parts.element;
  if (mine > 0) round.then = [type, terms = std::move(terms), to, mine] { sum_terms(type, terms, to, mine); };
  return round;
}

Round gather_round(const Parts& parts, std::byte* x, Place place, int piece) {
  Round round;
  for_others(place, [&](int peer) {
    if (const std::int64_t n = parts.length(place.rank, piece); n > 0)
      round.messages.push_back(
          sent(peer, place.tag, x + parts.begin(place.rank, piece) * parts.element, n * parts.element));
    if (const std::int64_t n = parts.length(peer, piece); n > 0)
      round.messages.push_back(
          received(peer, place.tag, x + parts.begin(peer, piece) * parts.element, n * parts.element));
  });
  return round;
}

// Everything to everybody; each adds up.
Plan plan_tiny_all_reduce(View x, Place place) {
  const std::int64_t others = place.size - 1;
  Plan plan{.rounds = 1, .staging = others * x.bytes(), .traffic = {others * x.bytes(), others}};
  plan.round = [x, place](int, std::byte* staging) {
    Round round;
    std::byte *mine = bytes_of(x.data), *next = staging;
    std::vector<const std::byte*> terms(place.size, mine);
    for_others(place, [&](int peer) {
      round.messages.push_back(sent(peer, place.tag, mine, x.bytes()));
      round.messages.push_back(received(peer, place.tag, next, x.bytes()));
      terms[peer] = next;
      next += x.bytes();
    });
    round.then = [=, terms = std::move(terms)] { sum_terms(x.dtype, terms, mine, x.numel()); };
    return round;
  };
  return plan;
}

}  // namespace

Plan plan_send(ConstView x, int to, int tag) {
  Plan plan{.rounds = 1, .traffic = {x.bytes(), 1}};
  plan.round = [=](int, std::byte*) { return Round{{sent(to, tag, bytes_of(x.data), x.bytes())}, {}}; };
  return plan;
}

Plan plan_receive(View y, int from, int tag) {
  Plan plan{.rounds = 1};
  plan.round = [=](int, std::byte*) { return Round{{received(from, tag, bytes_of(y.data), y.bytes())}, {}}; };
  return plan;
}

Plan plan_reduce_scatter(ConstView x, View y, Place place) {
  const Parts parts(x.numel(), size_of(x.dtype), place.size);
  Plan plan{.rounds = x.numel() > 0 ? parts.pieces : 0, .under_way = 2};
  plan.staging = 2 * (place.size - 1) * parts.slot(place.rank);
  plan.traffic = parts.scattered(place.rank);
  plan.round = [=](int index, std::byte* staging) {
    return scatter_round(parts, x.dtype, bytes_of(x.data), bytes_of(y.data), place, index, staging);
  };
  return plan;
}

Plan plan_all_reduce(View x, Place place) {
  if (place.size == 1 || x.numel() == 0) return {};
  if (x.bytes() <= kTiny) return plan_tiny_all_reduce(x, place);
  const Parts parts(x.numel(), size_of(x.dtype), place.size);
  const int pieces = parts.pieces, rounds = 2 * pieces;
  // Scatters run one piece ahead: scatter 0, scatter 1, gather 0, scatter 2, gather 1, ..., gather last.
  Plan plan{.rounds = rounds, .under_way = pieces > 1 ? 2 : 1};
  plan.staging = 2 * (place.size - 1) * parts.slot(place.rank);
  const Traffic scattered = parts.scattered(place.rank), gathered = parts.gathered(place.rank);
  plan.traffic = {scattered.bytes + gathered.bytes, scattered.messages + gathered.messages};
  std::byte* data = bytes_of(x.data);
  std::byte* mine = data + parts.begin(place.rank) * parts.element;
  plan.round = [=](int index, std::byte* staging) {
    if (index == rounds - 1) return gather_round(parts, data, place, pieces - 1);
    if (index > 0 && index % 2 == 0) return gather_round(parts, data, place, index / 2 - 1);
    return scatter_round(parts, x.dtype, data, mine, place, (index + 1) / 2, staging);
  };
  return plan;
}

Plan plan_all_gather(ConstView x, View y, Place place) {
  if (x.numel() == 0) return {};
  const std::int64_t others = place.size - 1;
  Plan plan{.rounds = 1, .traffic = {others * x.bytes(), others}};
  plan.round = [=](int, std::byte*) {
    Round round;
    std::byte *from = bytes_of(x.data), *to = bytes_of(y.data);
    for_others(place, [&](int peer) {
      round.messages.push_back(sent(peer, place.tag, from, x.bytes()));
      round.messages.push_back(received(peer, place.tag, to + peer * x.bytes(), x.bytes()));
    });
    round.then = [=] { copy_bytes(from, to + place.rank * x.bytes(), x.bytes()); };
    return round;
  };
  return plan;
}

Plan plan_all_to_all(ConstView x, std::vector<std::int64_t> send, View y, std::vector<std::int64_t> receive,
                     Place place) {
  // Offsets of members' rows, in bytes.
  const auto offsets = [](const std::vector<std::int64_t>& rows, std::int64_t row_bytes) {
    std::vector<std::int64_t> at(rows.size() + 1, 0);
    for (std::size_t i = 0; i < rows.size(); ++i) at[i + 1] = at[i] + rows[i] * row_bytes;
    return at;
  };
  Dims row = x.dims;
  row.extent[0] = 1;
  const std::int64_t row_bytes = row.numel() * size_of(x.dtype);
  Plan plan{.rounds = 1};
  for_others(place, [&](int peer) {
    plan.traffic.bytes += send[peer] * row_bytes;
    plan.traffic.messages += send[peer] * row_bytes > 0;
  });
  plan.round = [x, y, place, out = offsets(send, row_bytes), in = offsets(receive, row_bytes)](int,
                                                                                               std::byte*) {
    Round round;
    std::byte *from = bytes_of(x.data), *to = bytes_of(y.data);
    for_others(place, [&](int peer) {
      if (const std::int64_t n = out[peer + 1] - out[peer]; n > 0)
        round.messages.push_back(sent(peer, place.tag, from + out[peer], n));
      if (const std::int64_t n = in[peer + 1] - in[peer]; n > 0)
        round.messages.push_back(received(peer, place.tag, to + in[peer], n));
    });
    const std::int64_t at = out[place.rank], mine = out[place.rank + 1] - at, into = in[place.rank];
    round.then = [=] { copy_bytes(from + at, to + into, mine); };
    return round;
  };
  return plan;
}

}  // namespace strata::comm
