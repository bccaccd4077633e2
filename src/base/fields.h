// A config struct lists its fields once, in `void fields(FieldVisitor& v)`; readers, writers and listings are
// visitors of that list. A struct may add `void validate() const` for rules between fields; its sentences
// begin with a key.
#pragma once
#include <array>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace strata {

// What a value may be. Bounds hold for a number, for each element of a list, and for the length of a string.
struct Rule {
  static constexpr double kInfinity = std::numeric_limits<double>::infinity();

  double low = -kInfinity, high = kInfinity;
  bool low_open = false, high_open = false;
  bool is_required = false;
  bool applies = true;  // false: the key does nothing beside the values read so far, and is refused
  std::string_view condition = {};  // when it applies, in words

  constexpr Rule required(bool yes = true) const {
    Rule r = *this;
    r.is_required = yes;
    return r;
  }
  constexpr Rule only(bool does_apply, std::string_view when) const {
    Rule r = *this;
    r.applies = does_apply;
    r.condition = when;
    return r;
  }
};

constexpr Rule at_least(double low) { return {.low = low}; }
constexpr Rule above(double low) { return {.low = low, .low_open = true}; }
constexpr Rule between(double low, double high) { return {.low = low, .high = high}; }  // [low, high]
constexpr Rule from_below(double low, double high) {
  return {.low = low, .high = high, .high_open = true};
}  // [low, high)
// A count of steps or tokens: sums and products with small factors stay exact.
constexpr Rule count_from(double low) { return between(low, 1e15); }
constexpr Rule dimension() { return between(1, 1 << 24); }  // of a model or a batch
constexpr Rule not_empty() { return at_least(1); }          // a string
constexpr Rule required() { return Rule{}.required(); }
constexpr Rule only(bool does_apply, std::string_view when) { return Rule{}.only(does_apply, when); }

// An enum E with values 0..n-1 whose words enum_names(E), found beside E, lists in order.
template <class E>
concept NamedEnum = std::is_enum_v<E> && requires(E e) {
  std::string_view(enum_names(e)[0]);
};

template <NamedEnum E>
constexpr std::string_view name_of(E e) {
  return enum_names(e)[static_cast<std::size_t>(e)];
}

using Names = std::span<const std::string_view>;

struct Field {
  std::string_view key, help;
  Rule rule;
};

// A nested struct, or the whole config, seen through its list.
struct Group {
  std::function<void(class FieldVisitor&)> members;
  std::function<void()> validate;
};

class FieldVisitor {
 public:
  virtual ~FieldVisitor() = default;

  template <class T>
  void operator()(std::string_view key, T& value, std::string_view help, const Rule& rule = {}) {
    visit(Field{key, help, rule}, value);
  }

  virtual void group(const Field&, const Group&) = 0;

 protected:
  virtual void integer(const Field&, std::int64_t&) = 0;
  virtual void number(const Field&, double&) = 0;
  virtual void boolean(const Field&, bool&) = 0;
  virtual void text(const Field&, std::string&) = 0;
  virtual void choice(const Field&, int& index, Names names) = 0;
  virtual void integers(const Field&, std::vector<std::int64_t>&) = 0;
  virtual void choices(const Field&, std::vector<int>& indices, Names names) = 0;
  // Called before an optional's value; returns whether it shall have one (and then be visited itself).
  virtual bool optional(const Field&, bool has_value) = 0;
  // Called before and after a map's entries; begin returns the names it shall have.
  virtual std::vector<std::string> begin_map(const Field&, std::vector<std::string> present) = 0;
  virtual void end_map(const Field&) = 0;
  // Called before a list of structs, for each of them, and after; begin returns how many there shall be.
  virtual std::size_t begin_list(const Field&, std::size_t present) = 0;
  virtual void element(const Field& list, std::size_t index, const Group&) = 0;
  virtual void end_list(const Field&) = 0;

 private:
  void visit(const Field& f, std::int64_t& x) { integer(f, x); }
  void visit(const Field& f, double& x) { number(f, x); }
  void visit(const Field& f, bool& x) { boolean(f, x); }
  void visit(const Field& f, std::string& x) { text(f, x); }
  void visit(const Field& f, std::vector<std::int64_t>& x) { integers(f, x); }
  template <NamedEnum E>
  void visit(const Field& f, E& x) {
    static constexpr auto kNames = enum_names(E{});
    int index = static_cast<int>(x);
    choice(f, index, kNames);
    x = static_cast<E>(index);
  }
  template <NamedEnum E>
  void visit(const Field& f, std::vector<E>& x) {
    static constexpr auto kNames = enum_names(E{});
    std::vector<int> indices;
    for (const E e : x) indices.push_back(static_cast<int>(e));
    choices(f, indices, kNames);
    x.clear();
    for (const int index : indices) x.push_back(static_cast<E>(index));
  }
  template <class T>
  void visit(const Field& f, std::optional<T>& x) {
    if (!optional(f, x.has_value())) return x.reset();
    if (!x) x.emplace();
    visit(f, *x);
  }
  template <class T>
  void visit(const Field& f, std::map<std::string, T>& x) {
    std::vector<std::string> present;
    for (const auto& entry : x) present.push_back(entry.first);
    std::map<std::string, T> old;
    old.swap(x);
    for (const std::string& name : begin_map(f, present)) visit(Field{name, f.help, {}}, x[name] = old[name]);
    end_map(f);
  }
  template <class T>
  requires requires(T& x, FieldVisitor& v) { x.fields(v); }
  void visit(const Field& f, std::vector<T>& x) {
    x.resize(begin_list(f, x.size()));
    for (std::size_t i = 0; i < x.size(); ++i) element(f, i, group_of(x[i]));
    end_list(f);
  }
  template <class T>
  requires requires(T& x, FieldVisitor& v) { x.fields(v); }
  void visit(const Field& f, T& x) { group(f, group_of(x)); }

 public:
  template <class T>
  static Group group_of(T& x) {
    return {.members = [&x](FieldVisitor& v) { x.fields(v); },
            .validate =
                [&] {
                  if constexpr (requires { x.validate(); }) x.validate();
                }};
  }
};

}  // namespace strata
