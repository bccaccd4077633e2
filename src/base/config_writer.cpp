// The resolved config and its origins as JSON.
#include "base/error.h"
#include "base/field_text.h"
#include "base/json_config.h"
#include "base/json_value.h"

namespace strata {
namespace {

class Writer : public FieldVisitor {
 public:
  std::string document(const Group& root) {
    members(root);
    return out_ + "\n";
  }

  void group(const Field& f, const Group& g) override {
    if (!key(f)) return;
    members(g);
  }

 private:
  // A size that was never given breaks its own rule: there is nothing to write.
  void integer(const Field& f, std::int64_t& x) override {
    if (within(double(x), f.rule) && key(f)) out_ += std::to_string(x);
  }
  void number(const Field& f, double& x) override {
    if (key(f)) out_ += json_number(x);
  }
  void boolean(const Field& f, bool& x) override {
    if (key(f)) out_ += x ? "true" : "false";
  }
  void text(const Field& f, std::string& x) override {
    if (key(f)) out_ += json_quote(x);
  }
  void choice(const Field& f, int& index, Names names) override {
    if (key(f)) out_ += json_quote(std::string(names[std::size_t(index)]));
  }
  void integers(const Field& f, std::vector<std::int64_t>& x) override {
    list(f, x, [](std::int64_t e) { return std::to_string(e); });
  }
  void choices(const Field& f, std::vector<int>& x, Names names) override {
    list(f, x, [&](int e) { return json_quote(std::string(names[std::size_t(e)])); });
  }
  bool optional(const Field& f, bool has_value) override {
    if (!has_value && key(f)) out_ += "null";
    return has_value;
  }
  std::vector<std::string> begin_map(const Field& f, std::vector<std::string> present) override {
    if (!key(f)) return {};
    open();
    return present;
  }
  void end_map(const Field& f) override {
    if (f.rule.applies) close();
  }
  std::size_t begin_list(const Field& f, std::size_t present) override {
    if (key(f)) open('[');
    return present;
  }
  void element(const Field& f, std::size_t, const Group& g) override {
    if (!f.rule.applies) return;
    out_ += (is_first_ ? "\n" : ",\n") + std::string(2 * depth_, ' ');
    members(g);
  }
  void end_list(const Field& f) override {
    if (f.rule.applies) close(']');
  }

  template <class T, class Text>
  void list(const Field& f, const std::vector<T>& x, const Text& text) {
    if (!key(f)) return;
    out_ += "[";
    for (std::size_t i = 0; i < x.size(); ++i) out_ += (i ? ", " : "") + text(x[i]);
    out_ += "]";
  }
  // Begins a member; false if the field does nothing and is left out.
  bool key(const Field& f) {
    if (!f.rule.applies) return false;
    out_ += (is_first_ ? "\n" : ",\n") + std::string(2 * depth_, ' ') + json_quote(std::string(f.key)) + ": ";
    is_first_ = false;
    return true;
  }
  void members(const Group& g) {
    open();
    g.members(*this);
    close();
  }
  void open(char bracket = '{') {
    out_ += bracket;
    ++depth_;
    is_first_ = true;
  }
  void close(char bracket = '}') {
    --depth_;
    if (!is_first_) out_ += concat("\n", std::string(2 * depth_, ' '));
    out_ += bracket;
    is_first_ = false;
  }

  std::string out_;
  std::size_t depth_ = 0;
  bool is_first_ = true;
};

}  // namespace

std::string origins_json(const std::vector<ValueOrigin>& origins) {
  std::string out = "{";
  for (const ValueOrigin& o : origins)
    out += concat(&o == origins.data() ? "\n  " : ",\n  ", json_quote(o.path), ": ",
                  json_quote(std::string(name_of(o.origin))));
  return out + "\n}\n";
}

std::string detail::write_config(const Group& root) { return Writer().document(root); }

}  // namespace strata
