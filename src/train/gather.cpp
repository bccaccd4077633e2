#include "train/gather.h"

#include <cstring>

namespace strata::train {
namespace {

// Counts as 8 bytes, then what they count.
void put(std::string& to, const void* from, std::size_t count, std::size_t size) {
  const std::int64_t n = std::int64_t(count);
  to.append(reinterpret_cast<const char*>(&n), sizeof n);
  to.append(static_cast<const char*>(from), count * size);
}

class Reader {
 public:
  explicit Reader(const std::string& text) : text_(text) {}
  bool done() const { return at_ == text_.size(); }
  template <class Container>
  Container take() {
    std::int64_t n = 0;
    copy(&n, sizeof n);
    Container values(std::size_t(n), {});
    copy(values.data(), std::size_t(n) * sizeof values[0]);
    return values;
  }

 private:
  void copy(void* to, std::size_t bytes) {
    STRATA_CHECK(at_ + bytes <= text_.size(), "gathered numbers end early");
    if (bytes > 0) std::memcpy(to, text_.data() + at_, bytes);
    at_ += bytes;
  }
  const std::string& text_;
  std::size_t at_ = 0;
};

}  // namespace

TraceTensors gather(comm::Communicator& members, const TraceTensors& mine) {
  if (members.size() == 1) return mine;
  std::string packed;
  for (const auto& [name, t] : mine) {
    put(packed, name.data(), name.size(), 1);
    put(packed, t.shape.data(), t.shape.size(), sizeof t.shape[0]);
    put(packed, t.values.data(), t.values.size(), sizeof t.values[0]);
  }
  TraceTensors all;
  for (const std::string& text : comm::gather_texts(members, packed)) {
    Reader reader(text);
    while (!reader.done()) {
      const auto name = reader.take<std::string>();
      auto shape = reader.take<std::vector<std::int64_t>>();
      const bool fresh =
          all.emplace(name, TraceTensor{std::move(shape), reader.take<std::vector<double>>()}).second;
      STRATA_CHECK(fresh, "two ranks give ", name);
    }
  }
  return all;
}

}  // namespace strata::train
