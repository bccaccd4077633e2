// Reads a parsed document into a config by visiting its list of fields.
#include "base/json_config.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "base/config_overrides.h"
#include "base/error.h"
#include "base/field_text.h"
#include "base/json_value.h"
#include "base/key_list.h"

namespace strata {
namespace {

using Kind = JsonValue::Kind;

class Reader : public FieldVisitor {
 public:
  Reader(const JsonValue& root, const std::string& source, std::vector<std::string> paths)
      : source_(source), paths_(std::move(paths)), object_(&root) {}

  void read_root(const Group& g) { read_members(g); }
  std::vector<ValueOrigin> take_origins() { return std::move(origins_); }

  void group(const Field& f, const Group& g) override {
    const Place outer = enter(f, &g);
    read_members(g);
    leave(outer);
  }

 private:
  struct Place {
    const JsonValue* object;
    std::string path;
  };

  void integer(const Field& f, std::int64_t& x) override {
    if (const JsonValue* v = take(f, allowed_text("an integer", f.rule)))
      x = integer_of(*v, path_of(f), f.rule);
  }
  void number(const Field& f, double& x) override {
    const std::string allowed = allowed_text("a number", f.rule);
    const JsonValue* v = take(f, allowed);
    if (!v) return;
    if (!v->is_number() || !within(v->real, f.rule)) refuse(*v, path_of(f), allowed);
    x = v->real;
  }
  void boolean(const Field& f, bool& x) override {
    const JsonValue* v = take(f, "true or false");
    if (!v) return;
    if (v->kind != Kind::Boolean) refuse(*v, path_of(f), "true or false");
    x = v->boolean;
  }
  void text(const Field& f, std::string& x) override;
  void choice(const Field& f, int& index, Names names) override {
    if (const JsonValue* v = take(f, choice_text(names))) index = choice_of(*v, path_of(f), names);
  }
  void integers(const Field& f, std::vector<std::int64_t>& x) override {
    const std::string allowed = "a list, each entry " + allowed_text("an integer", f.rule);
    const JsonValue* v = take(f, allowed);
    if (!v) return;
    if (v->kind != Kind::Array) refuse(*v, path_of(f), allowed);
    x.clear();
    for (const JsonValue& e : v->elements)
      x.push_back(integer_of(e, concat(path_of(f), "[", x.size(), "]"), f.rule));
  }
  void choices(const Field& f, std::vector<int>& x, Names names) override {
    const std::string allowed = "a list, each entry " + choice_text(names);
    const JsonValue* v = take(f, allowed);
    if (!v) return;
    if (v->kind != Kind::Array) refuse(*v, path_of(f), allowed);
    x.clear();
    for (const JsonValue& e : v->elements)
      x.push_back(choice_of(e, concat(path_of(f), "[", x.size(), "]"), names));
  }
  bool optional(const Field& f, bool has_value) override;
  std::vector<std::string> begin_map(const Field& f, std::vector<std::string> present) override;
  void end_map(const Field&) override {
    leave(maps_.back());
    maps_.pop_back();
  }
  std::size_t begin_list(const Field& f, std::size_t present) override;
  void element(const Field& f, std::size_t index, const Group& g) override;
  void end_list(const Field&) override {}

  Place enter(const Field& f, const Group* g = nullptr);
  void leave(const Place& outer) {
    object_ = outer.object;
    path_ = outer.path;
  }
  void read_members(const Group& g);
  const JsonValue* take(const Field& f, const std::string& allowed);
  void refuse_unless_applies(const Field& f, const JsonValue& v) const;
  void refuse_unknown(const Group& g) const;
  std::string nearest(const std::string& key, const std::vector<std::string>& known) const;
  std::int64_t integer_of(const JsonValue& v, const std::string& path, const Rule& rule) const;
  int choice_of(const JsonValue& v, const std::string& path, Names names) const;
  void record(const Field& f, Origin origin) {
    if (f.rule.applies) origins_.push_back({path_of(f), origin});
  }

  std::string path_of(const Field& f) const { return path_ + std::string(f.key); }
  std::string where(Origin origin) const {
    return origin == Origin::CommandLine ? "command line: " : source_ + ": ";
  }
  [[noreturn]] void refuse(const JsonValue& v, const std::string& path, const std::string& allowed) const {
    throw InputError(concat(where(v.origin), path, " is ", v.brief(), ", allowed is ", allowed));
  }

  const std::string& source_;
  std::vector<std::string> paths_;  // of every key there is
  const JsonValue* object_;         // where we are
  std::string path_;                // its path, with a final dot
  std::vector<Place> maps_;         // what surrounds the maps we are in
  std::vector<ValueOrigin> origins_;
};

// All names, or of many those that are spelt most like `key`.
std::string some_of(std::vector<std::string> names, const std::string& key) {
  constexpr std::size_t kMost = 8, kLongest = 100;
  const std::size_t more = names.size() - std::min(kMost, names.size());
  if (more == 0) return join(names, ", ");
  const std::string_view word = std::string_view(key).substr(0, kLongest);
  std::stable_sort(names.begin(), names.end(), [&](const auto& a, const auto& b) {
    return edit_distance(a, word) < edit_distance(b, word);
  });
  names.resize(kMost);
  return concat(join(names, ", "), " and ", more, " more: strata config --reference");
}

const JsonValue kNothing{.kind = Kind::Object};

bool is_taken_away(const JsonValue& v) { return v.kind == Kind::Null && v.origin == Origin::CommandLine; }

// A key as it can stand in a sentence.
std::string shown(const std::string& key) {
  const bool plain = !key.empty() && std::all_of(key.begin(), key.end(), [](unsigned char c) {
    return std::isalnum(c) || c == '_' || c == '-';
  });
  constexpr std::size_t kMost = 60;
  if (plain && key.size() <= kMost) return key;
  return JsonValue{.kind = Kind::String, .text = key}.brief();
}

// "an object"; where it has a type and was given a word: as it would be with that word.
std::string object_text(const JsonValue& v, const Group* g) {
  const std::vector<std::string> keys = g ? keys_of(*g, false) : std::vector<std::string>();
  const bool has_type = std::find(keys.begin(), keys.end(), "type") != keys.end();
  return has_type && v.kind == Kind::String ? concat("an object, as in {\"type\": ", v.brief(), "}")
                                            : "an object";
}

Reader::Place Reader::enter(const Field& f, const Group* g) {
  Place outer{object_, path_};
  const JsonValue* v = object_->find(std::string(f.key));
  if (v) refuse_unless_applies(f, *v);
  if (v && is_taken_away(*v)) v = nullptr;
  if (v && v->kind != Kind::Object) refuse(*v, path_of(f), object_text(*v, g));
  object_ = v ? v : &kNothing;
  path_ = path_ + shown(std::string(f.key)) + ".";
  return outer;
}

void Reader::read_members(const Group& g) {
  refuse_unknown(g);
  g.members(*this);
  try {
    g.validate();
  } catch (const InputError& e) {
    const std::string sentence = path_ + e.what();
    const std::string key = sentence.substr(0, sentence.find(' '));
    const auto is_of_key = [&](const ValueOrigin& o) {  // the value, or one within it
      return o.path.starts_with(key) &&
             (o.path.size() == key.size() || o.path[key.size()] == '.' || o.path[key.size()] == '[');
    };
    const auto given = std::find_if(origins_.begin(), origins_.end(), is_of_key);
    throw InputError(where(given == origins_.end() ? Origin::File : given->origin) + sentence);
  }
}

// The field's value in the document, or nullptr: then it keeps its default.
const JsonValue* Reader::take(const Field& f, const std::string& allowed) {
  const JsonValue* v = object_->find(std::string(f.key));
  if (v) refuse_unless_applies(f, *v);
  record(f, v ? v->origin : Origin::Default);
  if (v && is_taken_away(*v)) v = nullptr;
  if (!v && f.rule.is_required && f.rule.applies)
    throw InputError(concat(source_, ": ", path_of(f), " is required: ", allowed));
  return v;
}

void Reader::refuse_unless_applies(const Field& f, const JsonValue& v) const {
  if (f.rule.applies || is_taken_away(v)) return;
  throw InputError(concat(where(v.origin), path_of(f), " is ", v.brief(),
                          ", but the key is allowed only when ", f.rule.condition));
}

bool Reader::optional(const Field& f, bool has_value) {
  const JsonValue* v = object_->find(std::string(f.key));
  if (v && v->kind != Kind::Null) return true;
  if (v) refuse_unless_applies(f, *v);
  if (!v && has_value) return true;
  record(f, v ? v->origin : Origin::Default);
  return false;
}

std::vector<std::string> Reader::begin_map(const Field& f, std::vector<std::string> present) {
  const JsonValue* v = object_->find(std::string(f.key));
  maps_.push_back(enter(f));
  if (!v || is_taken_away(*v)) return present;
  std::vector<std::string> names;
  for (const auto& member : object_->members) {
    if (member.first.empty())
      throw InputError(concat(where(v->origin), path_, "\"\" is a name without letters"));
    names.push_back(member.first);
  }
  return names;
}

std::size_t Reader::begin_list(const Field& f, std::size_t present) {
  const JsonValue* v = object_->find(std::string(f.key));
  if (v) refuse_unless_applies(f, *v);
  if (!v || is_taken_away(*v)) return present;
  if (v->kind != Kind::Array) refuse(*v, path_of(f), "a list of objects");
  return v->elements.size();
}

void Reader::element(const Field& f, std::size_t index, const Group& g) {
  const Place outer{object_, path_};
  const JsonValue* v = object_->find(std::string(f.key));
  const bool given = v && v->kind == Kind::Array;
  const std::string path = concat(path_of(f), "[", index, "]");
  if (given && v->elements[index].kind != Kind::Object) refuse(v->elements[index], path, "an object");
  object_ = given ? &v->elements[index] : &kNothing;
  path_ = path + ".";
  read_members(g);
  leave(outer);
}

void Reader::text(const Field& f, std::string& x) {
  const std::string allowed = within(0, f.rule) ? "a string" : "a string that is not empty";
  const JsonValue* v = take(f, allowed);
  if (!v) return;
  const bool bare = v->origin == Origin::CommandLine && (v->is_number() || v->kind == Kind::Boolean);
  const bool is_text = (v->kind == Kind::String || bare) && v->text.find('\0') == std::string::npos;
  if (!is_text || !within(double(v->text.size()), f.rule)) refuse(*v, path_of(f), allowed);
  x = v->text;
}

std::int64_t Reader::integer_of(const JsonValue& v, const std::string& path, const Rule& rule) const {
  const std::string allowed = allowed_text("an integer", rule);
  if (v.kind == Kind::Real) {
    const bool digits = v.text.find_first_of(".eE") == std::string::npos;
    refuse(v, path, allowed + (digits ? ", that fits in 64 bits" : ", written without fraction or exponent"));
  }
  if (v.kind != Kind::Integer || !within(v.real, rule)) refuse(v, path, allowed);
  return v.integer;
}

int Reader::choice_of(const JsonValue& v, const std::string& path, Names names) const {
  for (std::size_t i = 0; i < names.size(); ++i)
    if (v.kind == Kind::String && v.text == names[i]) return int(i);
  refuse(v, path, choice_text(names));
}

void Reader::refuse_unknown(const Group& g) const {
  const std::vector<std::string> known = keys_of(g, false);
  for (const auto& [key, value] : object_->members) {
    if (std::find(known.begin(), known.end(), key) != known.end()) continue;
    throw InputError(concat(where(value.origin), path_, shown(key), " is an unknown key (with value ",
                            value.brief(), ")", nearest(key, known), ", allowed here are ",
                            some_of(known, key)));
  }
}

// ", nearest is model.hidden_size": the closest spelling here, the same key elsewhere, or nothing that is
// near.
std::string Reader::nearest(const std::string& key, const std::vector<std::string>& known) const {
  constexpr std::size_t kLongest = 100;
  if (key.size() > kLongest || known.empty()) return "";
  const auto distance = [&](const std::string& k) { return edit_distance(key, k); };
  const std::string& best = *std::min_element(
      known.begin(), known.end(), [&](const auto& a, const auto& b) { return distance(a) < distance(b); });
  if (distance(best) > 2)
    for (const std::string& path : paths_)
      if (path == key || path.ends_with("." + key)) return ", nearest is " + path;
  return distance(best) > std::max(2, int(key.size()) / 2) ? "" : ", nearest is " + path_ + best;
}

}  // namespace

namespace detail {

std::string read_text_file(const std::string& file) {
  constexpr std::size_t kMost = 16 << 20;
  std::error_code error;
  const auto status = std::filesystem::status(file, error);
  if (status.type() == std::filesystem::file_type::not_found) throw InputError(file + ": no such file");
  if (status.type() == std::filesystem::file_type::directory)
    throw InputError(file + ": is a folder, expected a file");
  std::ifstream stream(file, std::ios::binary);
  if (!stream) throw InputError(file + ": cannot be opened: " + std::strerror(errno));
  std::string text(kMost + 1, '\0');
  stream.read(text.data(), std::streamsize(text.size()));
  if (stream.bad()) throw InputError(file + ": cannot be read");
  text.resize(std::size_t(stream.gcount()));
  if (text.size() > kMost) throw InputError(file + ": is larger than 16 MiB, expected a config file");
  return text;
}

std::vector<ValueOrigin> load_config(const Group& root, const std::string& text, const std::string& source,
                                     const std::vector<std::string>& overrides) {
  JsonValue document = parse_json(text, source, Origin::File);
  if (document.kind != Kind::Object)
    throw InputError(concat(source, ": is ", document.brief(), ", allowed is an object of sections"));
  for (const std::string& assignment : overrides) apply_override(document, assignment);
  Reader reader(document, source, keys_of(root, true));
  reader.read_root(root);
  return reader.take_origins();
}

}  // namespace detail
}  // namespace strata
