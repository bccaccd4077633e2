#include "checkpoint/cut.h"

#include <algorithm>

#include "base/error.h"
#include "base/json_value.h"

namespace strata::checkpoint {
namespace {

using Kind = JsonValue::Kind;

std::string text_of(const std::vector<std::int64_t>& shape) {
  std::string text = "[";
  for (const std::int64_t e : shape) text += (text.size() > 1 ? ", " : "") + std::to_string(e);
  return text + "]";
}

// Whether elements [offset, offset + count) exist in this shape.
bool lies_in(const Cut& cut, std::int64_t count) {
  std::int64_t n = 1;
  for (const std::int64_t e : cut.shape)
    if (e < 0 || __builtin_mul_overflow(n, e, &n)) return false;
  return cut.offset >= 0 && cut.offset <= n && count <= n - cut.offset;
}

Cut read_cut(const JsonValue& entry, const std::string& where) {
  const JsonValue* offset = entry.find("offset");
  const JsonValue* shape = entry.find("shape");
  if (!offset || offset->kind != Kind::Integer || !shape || shape->kind != Kind::Array)
    throw InputError(concat(where, " is ", entry.brief(), ", an offset and a shape are needed"));
  Cut cut{offset->integer, {}};
  for (const JsonValue& e : shape->elements) {
    if (e.kind != Kind::Integer) throw InputError(concat(where, " has the shape ", shape->brief()));
    cut.shape.push_back(e.integer);
  }
  return cut;
}

}  // namespace

std::string cuts_text(const Cuts& cuts) {
  std::string text = "{";
  for (const auto& [name, cut] : cuts)
    text += concat(text.size() > 1 ? ", " : "", json_quote(name), ": {\"offset\": ", cut.offset,
                   ", \"shape\": ", text_of(cut.shape), "}");
  return text + "}";
}

Cuts cuts_of(const SafetensorsFile& file) {
  Cuts cuts;
  const auto text = file.metadata().find(kPiecesKey);
  if (text == file.metadata().end()) return cuts;
  const std::string source = concat(file.path(), ", metadata \"", kPiecesKey, "\"");
  for (const auto& [name, entry] : parse_json(text->second, source, Origin::File).members) {
    const std::string where = concat(source, ", tensor \"", name, "\",");
    const Cut cut = read_cut(entry, where);
    const FileTensor& held = file.at(name);
    if (held.shape.size() != 1 || !lies_in(cut, held.numel()))
      throw InputError(
          concat(where, " is ", text_of(held.shape), " from ", cut.offset, " of ", text_of(cut.shape)));
    cuts[name] = cut;
  }
  return cuts;
}

CutTensors::CutTensors(std::string source, std::vector<SafetensorsFile> files)
    : source_(std::move(source)), files_(std::move(files)) {
  for (std::size_t i = 0; i < files_.size(); ++i) add(i);
  check_complete();
}

void CutTensors::add(std::size_t file) {
  const Cuts cuts = cuts_of(files_[file]);
  for (const auto& [name, t] : files_[file].tensors()) {
    const auto found = cuts.find(name);
    const Cut cut = found == cuts.end() ? Cut{0, t.shape} : found->second;
    const auto& [first, fresh] = all_.emplace(name, Whole{cut.shape, files_[file].path()});
    if (!fresh && first->second.shape != cut.shape)
      throw InputError(concat(source_, ": ", name, " is ", text_of(first->second.shape), " in one file and ",
                              text_of(cut.shape), " in another"));
    std::vector<Piece>& pieces = pieces_[name];
    pieces.push_back({cut.offset, t.numel(), file});
    std::sort(pieces.begin(), pieces.end(), [](const auto& a, const auto& b) { return a.offset < b.offset; });
  }
}

void CutTensors::check_complete() const {
  for (const auto& [name, pieces] : pieces_) {
    const auto refuse = [&, &name = name](std::int64_t from, std::int64_t to, const char* fault) {
      throw InputError(concat(source_, ": elements [", from, ", ", to, ") of ", name, " are in ", fault));
    };
    std::int64_t end = 0, numel = 1;
    for (const std::int64_t e : all_.at(name).shape) numel *= e;
    for (const Piece& p : pieces) {
      if (p.offset > end) refuse(end, p.offset, "no file");
      if (p.offset < end) refuse(p.offset, std::min(end, p.offset + p.count), "two files");
      end = p.offset + p.count;
    }
    if (end < numel) refuse(end, numel, "no file");
  }
}

std::vector<double> CutTensors::floats(const std::string& name, std::int64_t from, std::int64_t count) const {
  std::vector<double> values;
  values.reserve(std::size_t(count));
  const auto found = pieces_.find(name);
  if (found == pieces_.end()) throw InputError(concat(source_, " has no tensor \"", name, "\""));
  for (const Piece& p : found->second) {
    const std::int64_t begin = std::max(from, p.offset), end = std::min(from + count, p.offset + p.count);
    if (begin >= end) continue;
    const std::vector<double> part = files_[p.file].floats(name, begin - p.offset, end - begin);
    values.insert(values.end(), part.begin(), part.end());
  }
  STRATA_CHECK(std::int64_t(values.size()) == count, name, " has no elements [", from, ", ", from + count,
               ")");
  return values;
}

}  // namespace strata::checkpoint
