// A visitor that writes down keys.
#include "base/key_list.h"

namespace strata {
namespace {

class KeyList : public FieldVisitor {
 public:
  explicit KeyList(bool deep) : deep_(deep) {}
  std::vector<std::string> take() { return std::move(keys_); }

  void group(const Field& f, const Group& g) override {
    add(f);
    if (!deep_ || entries_ > 0) return;
    const std::string outer = prefix_;
    prefix_ += std::string(f.key) + ".";
    g.members(*this);
    prefix_ = outer;
  }

 private:
  void integer(const Field& f, std::int64_t&) override { add(f); }
  void number(const Field& f, double&) override { add(f); }
  void boolean(const Field& f, bool&) override { add(f); }
  void text(const Field& f, std::string&) override { add(f); }
  void choice(const Field& f, int&, Names) override { add(f); }
  void integers(const Field& f, std::vector<std::int64_t>&) override { add(f); }
  void choices(const Field& f, std::vector<int>&, Names) override { add(f); }
  bool optional(const Field& f, bool has_value) override {
    if (!has_value) add(f);
    return has_value;
  }
  std::vector<std::string> begin_map(const Field& f, std::vector<std::string> present) override {
    add(f);
    ++entries_;
    return present;
  }
  void end_map(const Field&) override { --entries_; }
  std::size_t begin_list(const Field& f, std::size_t present) override {
    add(f);
    return present;
  }
  void element(const Field&, std::size_t, const Group&) override {}
  void end_list(const Field&) override {}

  void add(const Field& f) {
    if (entries_ == 0) keys_.push_back(prefix_ + std::string(f.key));
  }

  bool deep_;
  int entries_ = 0;  // of maps, that we are in
  std::string prefix_;
  std::vector<std::string> keys_;
};

}  // namespace

std::vector<std::string> keys_of(const Group& group, bool deep) {
  KeyList list(deep);
  group.members(list);
  return list.take();
}

}  // namespace strata
