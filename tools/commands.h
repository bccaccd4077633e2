// The commands of the binary: one file each. main.cpp parses the command line into these structs. A command
// returns the exit status and throws what it cannot do.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace strata::tools {

struct ConfigArguments {
  std::string file;
  std::vector<std::string> overrides;  // "a.b=value"
};

struct TrainArguments {
  ConfigArguments config;
  bool overwrite = false;
  bool verbose = false;
};
int train(const TrainArguments& arguments);

struct TraceArguments {
  ConfigArguments config;
  std::string weights, batch, out, compare;  // files; empty: not given
  std::int64_t steps = 0;
  std::optional<double> tolerance;
};
// 1 where a comparison fails.
int trace(const TraceArguments& arguments);

struct ConfigCommandArguments {
  ConfigArguments config;
  bool reference = false;
  bool json = false;
};
int config(const ConfigCommandArguments& arguments);

struct PlanArguments {
  ConfigArguments config;
  bool json = false;
};
int plan(const PlanArguments& arguments);

}  // namespace strata::tools
