#include "checkpoint/weight_set.h"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "base/json_value.h"

namespace strata::checkpoint {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr std::int64_t kLargestIndex = 100'000'000;
constexpr int kMaxDepth = 16;
constexpr const char* kMap = "weight_map";

// Strict JSON; a key given twice in one object, and deep nesting, are refused while parsing.
Json parse(const std::string& document, const std::string& path) {
  if (document.find('\0') != std::string::npos) throw InputError(concat(path, " holds a zero byte"));
  std::vector<std::set<std::string>> keys;
  const auto watch = [&](int depth, Json::parse_event_t event, Json& parsed) {
    if (depth > kMaxDepth) throw InputError(concat(path, " is nested deeper than ", kMaxDepth, " levels"));
    if (event == Json::parse_event_t::object_start) keys.emplace_back();
    if (event == Json::parse_event_t::object_end) keys.pop_back();
    if (event == Json::parse_event_t::key && !keys.back().insert(parsed.get<std::string>()).second)
      throw InputError(concat(path, " names ", json_quote(parsed.get<std::string>()), " twice"));
    return true;
  };
  try {
    return Json::parse(document, watch);
  } catch (const Json::exception& e) {
    const std::string text = e.what(), message = text.substr(text.find(' ') + 1);  // without its number
    throw InputError(concat(path, " is not JSON (", message.substr(0, message.find("; last read")), ")"));
  }
}

std::map<std::string, std::string> read_index(const std::string& path) {
  const InputFile file(path);
  if (file.size() > kLargestIndex)
    throw InputError(concat(path, " has ", file.size(), " bytes, at most ", kLargestIndex, " are allowed"));
  std::string text(std::size_t(file.size()), '\0');
  file.read(0, std::as_writable_bytes(std::span(text)));
  const Json index = parse(text, path);
  if (!index.is_object() || !index.contains(kMap) || !index[kMap].is_object())
    throw InputError(concat(path, " has no object ", kMap));
  std::map<std::string, std::string> where;
  for (const auto& [name, shard] : index[kMap].items()) {
    const std::string text_of_shard = shard.is_string() ? shard.get<std::string>() : "";
    const bool is_plain = !text_of_shard.empty() && text_of_shard[0] != '.' &&
                          text_of_shard.find_first_of(std::string("/\0", 2)) == std::string::npos;
    if (!is_plain)
      throw InputError(concat(path, ": ", kMap, " has ", shard.dump().substr(0, 80), " for ",
                              json_quote(name), ", the name of a file beside it is needed"));
    where.emplace(name, text_of_shard);
  }
  return where;
}

// "a, b and 3 more".
std::string list(const std::vector<std::string>& names) {
  std::string text;
  for (std::size_t i = 0; i < names.size() && i < 3; ++i) text += (i ? ", " : "") + names[i];
  return names.size() > 3 ? concat(text, " and ", names.size() - 3, " more") : text;
}

}  // namespace

std::string weight_index(const std::map<std::string, std::string>& file_of_weight, std::int64_t bytes) {
  nlohmann::ordered_json j;
  j["metadata"]["total_size"] = bytes;
  for (const auto& [weight, file] : file_of_weight) j[kMap][weight] = file;
  return j.dump(2) + "\n";
}

WeightSet::WeightSet(const std::string& path) : path_(path) {
  const fs::path given(path);
  if (fs::is_directory(given)) {
    const fs::path single = given / "model.safetensors", index = given / kIndexName;
    if (!fs::exists(single) && !fs::exists(index))
      throw InputError(concat(path, " has neither model.safetensors nor ", kIndexName));
    path_ = (fs::exists(single) ? single : index).string();
  }
  if (path_.ends_with(".index.json")) {
    open_index(path_);
    return;
  }
  const std::string name = fs::path(path_).filename().string();
  const SafetensorsFile& file = files_.emplace(name, path_).first->second;
  for (const auto& [weight, t] : file.tensors()) where_.emplace(weight, name);
}

void WeightSet::open_index(const std::string& index) {
  where_ = read_index(index);
  std::vector<std::string> missing, extra;
  for (const auto& [weight, shard] : where_)
    if (!files_.count(shard)) files_.emplace(shard, (fs::path(index).parent_path() / shard).string());
  for (const auto& [weight, shard] : where_)
    if (!files_.at(shard).has(weight)) missing.push_back(concat(weight, " (not in ", shard, ")"));
  for (const auto& [shard, file] : files_)
    for (const auto& [weight, t] : file.tensors()) {
      const auto it = where_.find(weight);
      if (it == where_.end() || it->second != shard) extra.push_back(concat(weight, " (in ", shard, ")"));
    }
  if (!missing.empty())
    throw InputError(concat(index, " names weights that its shards lack: ", list(missing)));
  if (!extra.empty())
    throw InputError(concat(index, ": its shards hold weights that it does not place there: ", list(extra)));
}

std::vector<std::string> WeightSet::names() const {
  std::vector<std::string> names;
  for (const auto& [weight, shard] : where_) names.push_back(weight);
  return names;
}

const SafetensorsFile& WeightSet::file_of(const std::string& name) const {
  const auto it = where_.find(name);
  if (it == where_.end()) throw InputError(concat(path_, " has no weight \"", name, "\""));
  return files_.at(it->second);
}

}  // namespace strata::checkpoint
