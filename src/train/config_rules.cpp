// Values derived from a run's configuration, and which of its values contradict each other.
#include <algorithm>
#include <filesystem>

#include "data/tokenizer.h"
#include "pipeline/cut.h"
#include "train/config.h"

namespace strata::train {

void RunSection::validate() const {
  if (name.find('/') != std::string::npos)
    throw InputError(concat("name \"", name, "\" has a slash in it: a folder goes into output_dir"));
  if (name == "." || name == "..")
    throw InputError(concat("name \"", name, "\" is no name of a folder below runs"));
}

void LoggingSection::validate() const {
  const std::filesystem::path path = std::filesystem::path(jsonl).lexically_normal();
  if (path.is_absolute() || !path.has_filename() || *path.begin() == ".." || path == ".")
    throw InputError(
        concat("jsonl \"", jsonl, "\" is no file inside the run's folder, such as metrics.jsonl"));
  if (tensorboard_dir && *std::filesystem::path(*tensorboard_dir).lexically_normal().begin() == "..")
    throw InputError(concat("tensorboard_dir \"", *tensorboard_dir,
                            "\" is no folder inside the run's, such as events, nor an absolute path"));
  if (peak_flops && *peak_flops > 0 && *peak_flops < 1e6)
    throw InputError(concat("peak_flops is ", *peak_flops, ", allowed is 0 or a number of at least 1e6"));
}

bool ProfileSection::names(int rank) const {
  return !ranks || std::find(ranks->begin(), ranks->end(), rank) != ranks->end();
}

void ProfileSection::validate() const {
  if (!steps) return;
  if (steps->size() != 2)
    throw InputError(concat("steps has ", steps->size(), steps->size() == 1 ? " entry" : " entries",
                            ": the first and the last step, such as [10, 12]"));
  if (steps->front() > steps->back())
    throw InputError(concat("steps ends with ", steps->back(), ", before its first step ", steps->front()));
  if (!ranks) return;
  if (ranks->empty()) throw InputError("ranks is empty: name a rank, or leave the key out for all");
  for (auto it = ranks->begin(); it != ranks->end(); ++it)
    if (std::find(ranks->begin(), it, *it) != it) throw InputError(concat("ranks names ", *it, " twice"));
}

std::int64_t TrainingSection::iterations() const {
  constexpr std::int64_t kDefault = 1000;
  if (train_tokens) return (*train_tokens - 1) / (batch_size() * seq_length) + 1;
  return train_iters.value_or(kDefault);
}

void TrainingSection::validate() const {
  if (batch_size() % micro_batch_size != 0)
    throw InputError(concat("global_batch_size ", batch_size(), " is not a multiple of micro_batch_size ",
                            micro_batch_size));
  if (train_iters && train_tokens)
    throw InputError(concat("train_iters ", *train_iters, " and train_tokens ", *train_tokens,
                            " both give the length of the run: remove one"));
}

DType PrecisionSection::dtype() const {
  switch (compute) {
    case Compute::Float64:
      return DType::Float64;
    case Compute::BFloat16:
      return DType::BFloat16;
    default:
      return DType::Float32;
  }
}

bool RecomputeSection::drops(RecomputeModule module) const {
  return granularity == Granularity::Selective &&
         std::find(modules.begin(), modules.end(), module) != modules.end();
}

void RecomputeSection::validate() const {
  if (modules.empty()) throw InputError("modules is empty: name a module, or choose granularity none");
  for (auto it = modules.begin(); it != modules.end(); ++it)
    if (std::find(modules.begin(), it, *it) != it)
      throw InputError(concat("modules names \"", name_of(*it), "\" twice"));
}

namespace {

// A kernel that computes in float32 divides by this value, or scales with it, as a float.
void check_above_zero_in_float(const char* key, double value) {
  if (float(value) == 0)
    throw InputError(
        concat(key, " ", value, " is 0 in float32, the type it is computed in; at least 1e-38 works"));
}

void check_experts(const model::ModelConfig& model, std::int64_t ranks) {
  if (ranks == 1) return;
  if (!model.has_moe())
    throw InputError(concat("parallel.expert_model_parallel_size ", ranks, " needs experts in the model"));
  if (model.n_routed_experts % ranks != 0)
    throw InputError(concat("parallel.expert_model_parallel_size ", ranks,
                            " does not divide model.n_routed_experts ", model.n_routed_experts));
}

}  // namespace

void RunConfig::validate() const {
  if (precision.compute != Compute::Float64) {
    check_above_zero_in_float("optimizer.eps", optimizer.eps);
    check_above_zero_in_float("model.rms_norm_eps", model.rms_norm_eps);
    check_above_zero_in_float("model.routed_scaling_factor", model.routed_scaling_factor);
  }
  pipeline::cut_layers(model, parallel.stages(), parallel.pipeline_model_parallel_layout);
  check_experts(model, parallel.expert_model_parallel_size);
  if (router.bias_update_speed > 0 && model.moe_layers() == 0)
    throw InputError(
        concat("router.bias_update_speed ", router.bias_update_speed, " needs a MoE layer in the model"));
  if (router.bias_update_speed > 0 && model.scoring_func != model::ScoringFunc::Sigmoid)
    throw InputError(concat("router.bias_update_speed ", router.bias_update_speed,
                            " needs model.scoring_func sigmoid: softmax scores have no bias"));
  if (lr_schedule.min_lr > optimizer.lr)
    throw InputError(
        concat("lr_schedule.min_lr ", lr_schedule.min_lr, " is above optimizer.lr ", optimizer.lr));
}

namespace {

void check_schedule(const optim::LrScheduleSection& schedule, std::int64_t iterations) {
  using optim::LrDecayStyle;
  const LrDecayStyle style = schedule.lr_decay_style;
  if (style != LrDecayStyle::Cosine && style != LrDecayStyle::Wsd) return;
  const std::int64_t decay = schedule.decay_iters(iterations), warmup = schedule.lr_warmup_iters;
  const std::int64_t tail = style == LrDecayStyle::Wsd ? schedule.wsd_decay_iters(iterations) : 0;
  if (warmup > decay)
    throw InputError(
        concat("lr_schedule.lr_warmup_iters ", warmup, " is above the ", decay, " steps of the schedule"));
  if (warmup + tail > decay)
    throw InputError(concat("lr_schedule.lr_wsd_decay_iters ", tail, " and lr_warmup_iters ", warmup,
                            " together exceed the ", decay, " steps of the schedule"));
}

}  // namespace

void check_trainable(const RunConfig& config) {
  if (config.data.train.empty())
    throw InputError("data.train is required: a list of token files, as in [{\"path\": \"data/corpus\"}]");
  if (config.data.tokenizer) {
    const auto tokenizer = data::make_tokenizer(*config.data.tokenizer);
    if (config.model.vocab_size < tokenizer->vocabulary())
      throw InputError(concat("model.vocab_size ", config.model.vocab_size, " is below the ",
                              tokenizer->vocabulary(), " ids of data.tokenizer ", tokenizer->name()));
  }
  if (config.training.eval_interval > 0 && config.data.validation.empty())
    throw InputError(
        concat("data.validation is required with training.eval_interval ", config.training.eval_interval,
               ": token files by name, as in {\"held_out\": ", "{\"path\": \"data/held_out\"}}"));
  check_schedule(config.lr_schedule, config.training.iterations());
  if (config.profile.steps && config.profile.steps->front() > config.training.iterations())
    throw InputError(concat("profile.steps begins with step ", config.profile.steps->front(), ", behind the ",
                            config.training.iterations(), " steps of the run"));
}

}  // namespace strata::train
