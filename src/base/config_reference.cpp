// The reference page of a config: one line for each key.
#include <algorithm>

#include "base/error.h"
#include "base/field_text.h"
#include "base/json_config.h"
#include "base/json_value.h"

namespace strata {
namespace {

struct Row {
  std::string path, type, value, meaning;
};

class Reference : public FieldVisitor {
 public:
  std::vector<Row> take() { return std::move(rows_); }

  void group(const Field& f, const Group& g) override {
    const std::string outer = prefix_;
    prefix_ += std::string(f.key) + ".";
    g.members(*this);
    prefix_ = outer;
  }

 private:
  void integer(const Field& f, std::int64_t& x) override {
    const bool valid = within(double(x), f.rule);
    add(f, "integer", valid ? std::to_string(x) : "none", allowed_text("", f.rule));
  }
  void number(const Field& f, double& x) override {
    add(f, "number", json_number(x), allowed_text("", f.rule));
  }
  void boolean(const Field& f, bool& x) override { add(f, "boolean", x ? "true" : "false", ""); }
  void text(const Field& f, std::string& x) override { add(f, "string", json_quote(x), ""); }
  void choice(const Field& f, int& index, Names names) override {
    add(f, "choice", std::string(names[std::size_t(index)]), words(names));
  }
  void integers(const Field& f, std::vector<std::int64_t>& x) override {
    std::vector<std::string> entries;
    for (const std::int64_t e : x) entries.push_back(std::to_string(e));
    add(f, "integers", concat("[", join(entries, ", "), "]"), concat("each", allowed_text("", f.rule)));
  }
  void choices(const Field& f, std::vector<int>& x, Names names) override {
    const bool all = x.size() == names.size();
    std::vector<std::string> entries;
    for (const int e : x) entries.emplace_back(names[std::size_t(e)]);
    add(f, "choices", all ? "all" : concat("[", join(entries, ", "), "]"), words(names));
  }
  bool optional(const Field&, bool has_value) override {
    is_unset_ = !has_value;
    return true;
  }
  std::vector<std::string> begin_map(const Field& f, std::vector<std::string>) override {
    maps_.push_back(prefix_);
    prefix_ += std::string(f.key) + ".";
    return {"NAME"};
  }
  void end_map(const Field&) override {
    prefix_ = maps_.back();
    maps_.pop_back();
  }
  std::size_t begin_list(const Field&, std::size_t) override { return 1; }
  void element(const Field& f, std::size_t, const Group& g) override {
    const std::string outer = prefix_;
    prefix_ += std::string(f.key) + "[N].";
    g.members(*this);
    prefix_ = outer;
  }
  void end_list(const Field&) override {}

  static std::string words(Names names) { return join({names.begin(), names.end()}, " | "); }

  void add(const Field& f, const std::string& type, const std::string& value, const std::string& allowed) {
    std::string meaning(f.help);
    const std::size_t start = allowed.find_first_not_of(' ');
    if (start != std::string::npos) meaning += " (" + allowed.substr(start) + ")";
    if (!f.rule.condition.empty()) meaning += ", only when " + std::string(f.rule.condition);
    const bool is_unset = std::exchange(is_unset_, false);
    rows_.push_back({prefix_ + std::string(f.key), type,
                     f.rule.is_required ? "required"
                     : is_unset         ? "unset"
                                        : value,
                     meaning});
  }

  std::string prefix_;
  std::vector<std::string> maps_;
  std::vector<Row> rows_;
  bool is_unset_ = false;
};

}  // namespace

std::string detail::list_config(const Group& root) {
  Reference visitor;
  root.members(visitor);
  const std::vector<Row> rows = visitor.take();
  std::size_t path = 0, type = 0, value = 0;
  for (const Row& r : rows) {
    path = std::max(path, r.path.size());
    type = std::max(type, r.type.size());
    value = std::max(value, r.value.size());
  }
  const auto padded = [](const std::string& s, std::size_t width) {
    return s + std::string(width + 2 - s.size(), ' ');
  };
  std::string out;
  for (const Row& r : rows)
    out += padded(r.path, path) + padded(r.type, type) + padded(r.value, value) + r.meaning + "\n";
  return out;
}

}  // namespace strata
