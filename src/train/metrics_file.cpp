#include "train/metrics_file.h"

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "base/json_value.h"
#include "train/config.h"

namespace strata::train {
namespace {

namespace fs = std::filesystem;

// logging.jsonl of the run's configuration; of a folder that has none, the usual name.
std::string file_name(const fs::path& folder) {
  const std::string config = (folder / "config.json").string();
  if (!fs::exists(config)) return LoggingSection().jsonl;
  const JsonValue root = parse_json(detail::read_text_file(config), config, Origin::File);
  const JsonValue* logging = root.find("logging");
  const JsonValue* name = logging ? logging->find("jsonl") : nullptr;
  return name && name->kind == JsonValue::Kind::String ? name->text : LoggingSection().jsonl;
}

fs::path file_of(const std::string& run) {
  const std::string name = fs::is_directory(run) ? file_name(run) : "";
  const fs::path path = name.empty() ? fs::path(run) : fs::path(run) / name;
  if (!fs::exists(path))
    throw InputError(fs::is_directory(run) ? concat(run, ": has no ", name, ", is it a run's folder?")
                                           : concat(run, ": there is no such run or file of metrics"));
  if (!fs::is_regular_file(path)) throw InputError(concat(path.string(), ": is no regular file"));
  return path;
}

double value_of(const JsonValue& v, const std::string& key, const std::string& where) {
  if (v.is_number()) return v.real;
  const std::string& word = v.text;
  if (v.kind == JsonValue::Kind::String && (word == "nan" || word == "inf" || word == "-inf"))
    return word == "nan" ? NAN : word == "inf" ? INFINITY : -INFINITY;
  throw InputError(
      concat(where, ": \"", key, "\" is ", v.brief(), R"(, allowed is a number, "nan", "inf" or "-inf")"));
}

void append(Curve& curve, std::int64_t step, double value) {
  while (!curve.steps.empty() && curve.steps.back() >= step) {
    curve.steps.pop_back();
    curve.values.pop_back();
  }
  curve.steps.push_back(step);
  curve.values.push_back(value);
}

void take_line(MetricsFile& file, const std::string& line, std::int64_t number) {
  const std::string where = concat(file.path, ":", number);
  const JsonValue json = parse_json(line, where, Origin::File);
  const JsonValue* step = json.find("iteration");
  if (!step) throw InputError(where + ": is no line of metrics: it has no \"iteration\"");
  if (step->kind != JsonValue::Kind::Integer || step->integer < 0)
    throw InputError(concat(where, ": \"iteration\" is ", step->brief(), ", allowed is an integer from 0"));
  for (const auto& [key, value] : json.members)
    if (key != "iteration") append(file.curves[key], step->integer, value_of(value, key, where));
}

}  // namespace

MetricsFile read_metrics(const std::string& run) {
  MetricsFile file{file_of(run).string(), {}};
  std::ifstream stream(file.path, std::ios::binary);
  std::int64_t number = 0;
  for (std::string line; std::getline(stream, line) && !stream.eof();) take_line(file, line, ++number);
  if (stream.bad() || !stream.is_open())
    throw InputError(concat("cannot read ", file.path, ": ", std::strerror(errno)));
  if (file.curves.empty()) throw InputError(file.path + ": holds no metrics");
  return file;
}

}  // namespace strata::train
