#include "tensor/host_batch.h"

#include "base/error.h"

namespace strata {
namespace {

std::vector<std::int64_t> part(const std::vector<std::int64_t>& v, std::int64_t begin, std::int64_t end) {
  return v.empty() ? v : std::vector<std::int64_t>(v.begin() + begin, v.begin() + end);
}

}  // namespace

HostBatch HostBatch::slice(std::int64_t begin, std::int64_t end) const {
  STRATA_CHECK(0 <= begin && begin <= end && end <= rows, "rows [", begin, ", ", end, ") of ", rows);
  return {.rows = end - begin,
          .length = length,
          .input_ids = part(input_ids, begin * length, end * length),
          .labels = part(labels, begin * length, end * length),
          .documents = part(documents, begin * length, end * length)};
}

void HostBatch::validate(std::int64_t vocab_size) const {
  for (std::int64_t i = 0; i < rows * length; ++i) {
    const std::int64_t id = input_ids[i], label = labels[i];
    if (id < 0 || id >= vocab_size)
      throw InputError(concat("input_ids[", i / length, "][", i % length, "] is ", id,
                              "; token ids are 0 to ", vocab_size - 1, " (model.vocab_size)"));
    if (label != kIgnoreLabel && (label < 0 || label >= vocab_size))
      throw InputError(concat("labels[", i / length, "][", i % length, "] is ", label, "; labels are 0 to ",
                              vocab_size - 1,
                              " (model.vocab_size), or -100 for a token that is not counted"));
  }
}

}  // namespace strata
