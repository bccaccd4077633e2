#include "train/metrics.h"

#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/error.h"

namespace strata::train {
namespace {

bool has_name_from(const nlohmann::json& line, const std::string& beginning) {
  for (const auto& [name, value] : line.items())
    if (name.starts_with(beginning)) return true;
  return false;
}

// The whole lines of `path` up to iteration `last_step`; what is not of this form is dropped.
std::string lines_until(const std::string& path, std::int64_t last_step, const std::string& redone) {
  std::ifstream old(path);
  std::string kept;
  for (std::string line; std::getline(old, line) && !old.eof();) {
    const auto json = nlohmann::json::parse(line, nullptr, false);
    if (!json.is_object() || !json.contains("iteration") || !json["iteration"].is_number()) continue;
    const double step = json["iteration"].get<double>();
    if (step > double(last_step) ||
        (step == double(last_step) && !redone.empty() && has_name_from(json, redone)))
      continue;
    kept += line + "\n";
  }
  return kept;
}

}  // namespace

MetricsSink::MetricsSink(const std::string& path, std::int64_t last_step, const std::string& redone)
    : path_(path) {
  const std::string kept = last_step > 0 ? lines_until(path, last_step, redone) : "", aside = path + ".new";
  file_.open(kept.empty() ? path : aside, std::ios::trunc);
  file_ << kept << std::flush;
  if (!file_ || (!kept.empty() && std::rename(aside.c_str(), path.c_str()) != 0))
    throw InputError(concat("cannot write ", path, ": ", std::strerror(errno)));
}

void MetricsSink::write(const Metrics& values) {
  nlohmann::ordered_json line = nlohmann::ordered_json::object();
  for (const auto& [name, v] : values) {
    if (!std::isfinite(v))
      line[name] = std::isnan(v) ? "nan" : v > 0 ? "inf" : "-inf";
    else if (v == std::floor(v) && std::abs(v) < 1e15)
      line[name] = std::int64_t(v);
    else
      line[name] = v;
  }
  file_ << line.dump() << std::endl;
  if (!file_) throw Error(concat("cannot write ", path_, ": ", std::strerror(errno)));
}

}  // namespace strata::train
