// The commands of the binary: one file each. options.cpp binds the command line's options to these structs. A
// command returns the exit status and throws what it cannot do.
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
  bool override_changes = false;
  std::vector<std::string> inject;  // "nan@step=5"
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

struct VerifyLayoutArguments {
  ConfigArguments config;
  std::string layouts;  // "pp=2;ep=2,dp=4"
  std::int64_t steps = 3;
  std::optional<double> tolerance;
  bool json = false;
};
// 1 where a layout differs from one rank.
int verify_layout(const VerifyLayoutArguments& arguments);

struct PlanArguments {
  ConfigArguments config;
  std::optional<int> world;  // ranks; unset: as few as the configuration allows
  std::string layouts;       // or several: "pp=2;ep=2,dp=4"
  bool json = false;
};
int plan(const PlanArguments& arguments);

struct ScheduleArguments {
  ConfigArguments config;    // or, without a file, what follows
  std::optional<int> world;  // with a file: ranks
  std::string schedule;
  int pipeline = 0, virtual_stages = 1, micro_batches = 0;
  bool json = false;
};
int schedule(const ScheduleArguments& arguments);

struct BenchArguments {
  ConfigArguments config;
  std::string other;                               // of compare
  std::vector<std::string> residuals, precisions;  // of step; empty: the configuration's
  std::int64_t steps = 3;
  bool json = false;
};
int bench_step(const BenchArguments& arguments);
int bench_ops(const BenchArguments& arguments);
int bench_compare(const BenchArguments& arguments);

// Where a trained model is.
struct ModelArguments {
  ConfigArguments config;
  std::string weights;     // file, with config.file
  std::string checkpoint;  // or this folder instead of the two
};

struct GenerateArguments : ModelArguments {
  std::optional<std::string> prompt;
  std::string prompt_file;  // or its text
  std::int64_t max_new_tokens = 128;
  double temperature = 1;
  std::int64_t top_k = 0;
  double top_p = 1;
  std::uint64_t seed = 0;
  bool json = false;
};
int generate(const GenerateArguments& arguments);

struct EvalArguments : ModelArguments {
  std::vector<std::string> data;           // "NAME=PREFIX" or "NAME"; empty: the configuration's sets
  std::optional<std::int64_t> iterations;  // batches of a set; unset: all of it
  bool json = false;
};
int eval(const EvalArguments& arguments);

struct PrepareArguments {
  std::vector<std::string> inputs;
  std::string output, tokenizer = "byte", jsonl_key = "text";
  bool append_eod = true;
  std::int64_t workers = 0;  // 0: one a core
  bool overwrite = false;
};
int prepare(const PrepareArguments& arguments);

struct PlotArguments {
  std::vector<std::string> runs;  // folders or files of metrics
  std::string out;
};
int plot(const PlotArguments& arguments);

struct CheckpointArguments {
  std::string path;
  bool json = false;
};
int inspect_checkpoint(const CheckpointArguments& arguments);
// 1 where one is damaged.
int verify_checkpoint(const CheckpointArguments& arguments);

struct ConvertArguments {
  std::string from, to, format, residual, dtype;  // empty: not given
  std::vector<std::string> overrides;
  double max_shard_gb = 5;
  bool overwrite = false;
};
int convert(const ConvertArguments& arguments);

}  // namespace strata::tools
