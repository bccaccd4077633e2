#include "train/run.h"

#include <omp.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <optional>

#include "base/log.h"
#include "data/text_corpus.h"
#include "train/metrics.h"
#include "train/run_folder.h"
#include "train/trainer.h"

namespace strata::train {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

template <class... Parts>
std::string format(const char* pattern, Parts... parts) {
  char text[256];
  std::snprintf(text, sizeof text, pattern, parts...);
  return text;
}

std::string duration(double seconds) {
  const auto s = static_cast<long long>(seconds + 0.5);
  return s >= 3600 ? format("%lldh%02lldm", s / 3600, s / 60 % 60) : format("%lldm%02llds", s / 60, s % 60);
}

std::string megabytes(std::int64_t bytes) { return format("%.1f MB", double(bytes) / 1e6); }

struct Texts {
  data::TextCorpus train;
  std::optional<data::TextCorpus> validation;
};

Texts load_texts(const RunConfig& config) {
  const std::int64_t length = config.training.seq_length;
  Texts texts{{*config.data.train, length, std::uint64_t(config.run.seed)}, {}};
  if (config.data.validation) texts.validation.emplace(*config.data.validation, length, 0);
  return texts;
}

class Run {
 public:
  Run(const RunConfig& config, Texts texts, const std::string& metrics)
      : config_(config), texts_(std::move(texts)), metrics_(metrics), trainer_(config, device_) {}

  void introduce() {
    const TrainingSection& t = config_.training;
    const double tokens = double(t.iterations()) * double(t.batch_size()) * double(t.seq_length);
    log::info(concat("run ", config_.run.name, " in ", config_.run.folder(), ": cpu, ", omp_get_max_threads(),
                     " threads, seed ", config_.run.seed));
    log::info(concat("model: ", format("%.2fM", double(trainer_.store().count()) / 1e6),
                     " parameters, residual ", name_of(config_.model.residual.type), ", ",
                     name_of(config_.precision.compute), ", ", megabytes(device_.memory().total().now),
                     " before the first step"));
    log::info(concat("data: ", *config_.data.train, ", ", texts_.train.bytes(), " tokens; ", t.iterations(),
                     " steps of ", t.batch_size(), " x ", t.seq_length, " tokens, ",
                     format("%.3g in all, %.2f epochs", tokens, tokens / double(texts_.train.bytes()))));
  }

  void train() {
    const std::int64_t steps = config_.training.iterations(), rows = config_.training.batch_size();
    const std::int64_t every = config_.training.eval_interval;
    start_ = Clock::now();
    for (std::int64_t i = 0; i < steps; ++i) {
      const Clock::time_point begin = Clock::now();
      const StepResult r = trainer_.step(texts_.train.batch(i * rows, rows));
      report(r, steps, seconds_since(begin));
      if (!std::isfinite(r.loss) || !std::isfinite(r.grad_norm))
        throw Error(
            concat("step ", r.step, ": loss ", r.loss, ", grad norm ", r.grad_norm, "; the run stops"));
      if (texts_.validation && (r.step == steps || (every > 0 && r.step % every == 0))) evaluate(r.step);
    }
  }

  void conclude() {
    std::string use = "peak memory: " + megabytes(device_.memory().total().peak);
    for (int p = 0; p < device::kPurposes; ++p)
      use += concat(", ", device::name_of(device::Purpose(p)), " ",
                    megabytes(device_.memory().use(device::Purpose(p)).peak));
    log::info(use);
    for (const auto& [why, count] : device_.read_backs())
      log::debug(concat("read back ", count, " times: ", why));
  }

 private:
  void report(const StepResult& r, std::int64_t steps, double seconds) {
    const double rate = double(r.tokens) / seconds;
    metrics_.write({{"iteration", double(r.step)},
                    {"lm loss", r.lm_loss},
                    {"load_balancing_loss", r.aux_loss},
                    {"mtp loss", r.mtp_loss},
                    {"grad norm", r.grad_norm},
                    {"learning rate", r.learning_rate},
                    {"tokens", double(r.step) * double(r.tokens)},
                    {"tokens per second", rate}});
    if (r.step != 1 && r.step != steps && r.step % config_.logging.log_interval != 0) return;
    const double left = seconds_since(start_) / double(r.step) * double(steps - r.step);
    log::info(format("step %lld/%lld  lm loss %.4f  lr %.3e  grad norm %.3f  %.0f tok/s  ETA %s",
                     (long long)r.step, (long long)steps, r.lm_loss, r.learning_rate, r.grad_norm, rate,
                     duration(left).c_str()));
  }

  void evaluate(std::int64_t step) {
    const std::int64_t windows = texts_.validation->windows(), rows = config_.training.batch_size();
    // The whole text where it is shorter than what is asked for.
    const bool whole = config_.training.eval_iters > windows / rows;
    const double loss = trainer_.evaluate(
        texts_.validation->in_order(0, whole ? windows : config_.training.eval_iters * rows));
    metrics_.write({{"iteration", double(step)},
                    {"lm loss validation", loss},
                    {"lm loss validation PPL", std::exp(loss)}});
    log::info(format("step %lld  lm loss validation %.4f, %.4f bits per byte", (long long)step, loss,
                     loss / std::log(2.0)));
  }

  const RunConfig& config_;
  Texts texts_;
  MetricsSink metrics_;
  device::Device device_;
  Trainer trainer_;
  Clock::time_point start_;
};

}  // namespace

void run(const RunConfig& config, const std::vector<ValueOrigin>& origins, bool overwrite) {
  if (config.backend.threads > 0) omp_set_num_threads(int(config.backend.threads));
  Texts texts = load_texts(config);  // what is wrong with the data shows before the folder is touched
  Run r(config, std::move(texts), prepare_folder(config, origins, overwrite));
  r.introduce();
  r.train();
  r.conclude();
}

}  // namespace strata::train
