#include "train/metrics.h"

#include <cerrno>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/error.h"

namespace strata::train {

MetricsSink::MetricsSink(const std::string& path) : path_(path), file_(path, std::ios::trunc) {
  if (!file_) throw InputError(concat("cannot write ", path, ": ", std::strerror(errno)));
}

void MetricsSink::write(const std::vector<std::pair<std::string, double>>& values) {
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
