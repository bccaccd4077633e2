// Everything a run is told: one struct per section of its JSON file. All keys but the model's sizes have
// defaults.
#pragma once
#include "base/dtype.h"
#include "base/fields.h"
#include "checkpoint/config.h"
#include "data/config.h"
#include "model/config.h"
#include "optim/config.h"
#include "pipeline/config.h"

namespace strata::train {

struct RunSection {
  std::string name = "run";
  std::optional<std::string> output_dir = {};  // unset: runs/<name>
  std::int64_t seed = 1234;

  std::string folder() const { return output_dir.value_or("runs/" + name); }
  void fields(FieldVisitor& v);
  void validate() const;
  bool operator==(const RunSection&) const = default;
};

struct RouterSection {
  double bias_update_speed = 0;

  void fields(FieldVisitor& v);
  bool operator==(const RouterSection&) const = default;
};

struct TrainingSection {
  std::int64_t seq_length = 512;
  std::int64_t micro_batch_size = 1;
  std::optional<std::int64_t> global_batch_size = {};  // sequences per step; unset: micro_batch_size
  std::optional<std::int64_t> train_iters = {};        // at most one of these two; neither: 1000 iterations
  std::optional<std::int64_t> train_tokens = {};
  std::int64_t eval_interval = 0;  // steps; 0: only after the last
  std::int64_t eval_iters = 10;

  // Sequences per optimiser step.
  std::int64_t batch_size() const { return global_batch_size.value_or(micro_batch_size); }
  // Optimiser steps of the run; train_tokens is rounded up to whole steps.
  std::int64_t iterations() const;
  void fields(FieldVisitor& v);
  void validate() const;
  bool operator==(const TrainingSection&) const = default;
};

enum class Compute { Float32, Float64, BFloat16 };
constexpr auto enum_names(Compute) {
  return std::array<std::string_view, 3>{"float32", "float64", "bfloat16"};
}

struct PrecisionSection {
  Compute compute = Compute::Float32;

  DType dtype() const;
  void fields(FieldVisitor& v);
  bool operator==(const PrecisionSection&) const = default;
};

enum class Granularity { None, Selective, Full };
constexpr auto enum_names(Granularity) {
  return std::array<std::string_view, 3>{"none", "selective", "full"};
}
enum class RecomputeModule { LayerNorm, MoeAct, CoreAttn, DepthRetrieval };
constexpr auto enum_names(RecomputeModule) {
  return std::array<std::string_view, 4>{"layernorm", "moe_act", "core_attn", "depth_retrieval"};
}

struct RecomputeSection {
  Granularity granularity = Granularity::None;
  std::vector<RecomputeModule> modules = {RecomputeModule::LayerNorm, RecomputeModule::MoeAct,
                                          RecomputeModule::CoreAttn,
                                          RecomputeModule::DepthRetrieval};  // selective

  // Whether selective recompute names this module.
  bool drops(RecomputeModule module) const;
  void fields(FieldVisitor& v);
  void validate() const;
  bool operator==(const RecomputeSection&) const = default;
};

enum class DeviceKind { Auto, Cpu };
constexpr auto enum_names(DeviceKind) { return std::array<std::string_view, 2>{"auto", "cpu"}; }

// What carries messages between ranks. Auto: MPI where mpirun started several, else one rank alone.
enum class Comm { Auto, Mpi, Threads };
constexpr auto enum_names(Comm) { return std::array<std::string_view, 3>{"auto", "mpi", "threads"}; }

struct BackendSection {
  DeviceKind device = DeviceKind::Auto;
  std::int64_t threads = 0;  // CPU threads of a rank; 0: all, divided over the ranks of this process
  Comm comm = Comm::Auto;
  std::int64_t threads_ranks = 1;  // comm threads: ranks in this process
  bool check_collectives = false;

  void fields(FieldVisitor& v);
  bool operator==(const BackendSection&) const = default;
};

enum class OnNan { Skip, Stop };
constexpr auto enum_names(OnNan) { return std::array<std::string_view, 2>{"skip", "stop"}; }
enum class SpikeAction { Log, Skip };
constexpr auto enum_names(SpikeAction) { return std::array<std::string_view, 2>{"log", "skip"}; }

struct ResilienceSection {
  OnNan nan = OnNan::Skip;
  std::int64_t max_consecutive_skips = 5;
  SpikeAction spike_action = SpikeAction::Log;
  double spike_sigma = 6;
  std::int64_t spike_window = 128;
  std::optional<double> exit_duration_in_mins = {};
  double watchdog_seconds = 600;  // 0: off

  void fields(FieldVisitor& v);
  bool operator==(const ResilienceSection&) const = default;
};

struct LoggingSection {
  std::int64_t log_interval = 1;
  std::int64_t metrics_interval = 10;               // steps; 0: never
  std::string jsonl = "metrics.jsonl";              // in the run's folder
  std::optional<std::string> tensorboard_dir = {};  // likewise; unset: no event files
  std::optional<double> peak_flops = {};            // a second; unset: measured; 0: no share of it is told

  void fields(FieldVisitor& v);
  void validate() const;
  bool operator==(const LoggingSection&) const = default;
};

// Which steps of which ranks are timed closely (profile.h).
struct ProfileSection {
  std::optional<std::vector<std::int64_t>> steps = {};  // [first, last]; unset: none
  std::optional<std::vector<std::int64_t>> ranks = {};  // of the world; unset: all

  bool covers(std::int64_t step) const { return steps && step >= steps->front() && step <= steps->back(); }
  bool names(int rank) const;
  void fields(FieldVisitor& v);
  void validate() const;
  bool operator==(const ProfileSection&) const = default;
};

// The mark by which this program's config.json is told from other programs'.
enum class ModelType { Strata };
constexpr auto enum_names(ModelType) { return std::array<std::string_view, 1>{"strata"}; }

struct RunConfig {
  ModelType model_type = ModelType::Strata;
  RunSection run = {};
  model::ModelConfig model = {};
  RouterSection router = {};
  data::DataSection data = {};
  TrainingSection training = {};
  optim::OptimizerSection optimizer = {};
  optim::LrScheduleSection lr_schedule = {};
  PrecisionSection precision = {};
  RecomputeSection recompute = {};
  pipeline::ParallelSection parallel = {};
  BackendSection backend = {};
  checkpoint::CheckpointSection checkpoint = {};
  ResilienceSection resilience = {};
  LoggingSection logging = {};
  ProfileSection profile = {};

  void fields(FieldVisitor& v);
  // Rules between sections that every command relies on; each section's own validate() has run before.
  void validate() const;
  bool operator==(const RunConfig&) const = default;
};

// What only a training run needs: data, a schedule that fits its length. Throws InputError; sentences begin
// with a path.
void check_trainable(const RunConfig& config);

}  // namespace strata::train
