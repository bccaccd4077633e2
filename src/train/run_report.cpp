#include "train/run_report.h"

#include <cmath>

#include "base/log.h"
#include "train/run_text.h"

namespace strata::train {
namespace {

constexpr char kValidation[] = "lm loss validation ";

}  // namespace

RunReport::RunReport(Trainer& trainer, const RunFolder& folder, const Progress& from)
    : trainer_(trainer),
      config_(trainer.config()),
      throughput_(config_, trainer.mesh().shape().world()),
      metrics_(folder.metrics_path(), from.step, from.evaluation_due ? kValidation : "") {
  if (config_.logging.tensorboard_dir)
    events_.emplace(folder.inside(*config_.logging.tensorboard_dir), from.step);
}

void RunReport::introduce(const data::TrainingData& data, const MemoryOutlook& memory) const {
  for (const std::string& line : introduction(config_, trainer_, data, memory)) log::info(line);
  log::info("speed: " + throughput_.text());
}

void RunReport::write(std::int64_t step, const Metrics& values) {
  Metrics line{{"iteration", double(step)}};
  line.insert(line.end(), values.begin(), values.end());
  metrics_.write(line);
  if (events_) events_->write(step, values);
}

void RunReport::step(const StepResult& r, const Progress& progress, const Metrics& more, double seconds,
                     double left) {
  const double rate = double(r.tokens) / seconds;
  Metrics values{{"lm loss", r.lm_loss},
                 {"load_balancing_loss", r.aux_loss},
                 {"mtp loss", r.mtp_loss},
                 {"grad norm", r.grad_norm},
                 {"learning rate", r.learning_rate},
                 {"consumed samples", double(progress.samples)},
                 {"tokens", double(progress.tokens)},
                 {"tokens per second", rate},
                 {"throughput (TFLOP/s)", throughput_.flops(rate) / 1e12},
                 {"elapsed time per iteration (ms)", 1e3 * seconds}};
  const std::optional<double> share = throughput_.share(rate);
  if (share) values.emplace_back("share of peak", *share);
  if (progress.skipped > 0) values.emplace_back("skipped iterations", double(progress.skipped));
  values.insert(values.end(), more.begin(), more.end());
  write(r.step, values);
  const std::int64_t steps = config_.training.iterations(), interval = config_.logging.log_interval;
  if (r.step == 1 || r.step == steps || (interval > 0 && r.step % interval == 0))
    log::info(progress_line(r, steps, rate, share, left));
}

void RunReport::evaluation(std::int64_t step, const std::string& set, const Evaluation& e) {
  const std::string name = kValidation + set;
  Metrics values{{name, e.loss}, {name + " PPL", std::exp(e.loss)}};
  std::string line = format("step %lld  %s %.4f", (long long)step, name.c_str(), e.loss);
  if (e.bits_per_byte) {
    values.emplace_back("bits per byte validation " + set, *e.bits_per_byte);
    line += format(", %.4f bits per byte", *e.bits_per_byte);
  }
  write(step, values);
  log::info(line);
}

void RunReport::conclude(const Progress& progress, bool nothing_was_left, const std::string& reason,
                         const std::string& folder) {
  const std::int64_t steps = config_.training.iterations();
  const std::string skipped = progress.skipped == 0 ? "" : concat(", ", progress.skipped, " of them skipped");
  if (progress.step < steps)
    log::info(concat("stopped by ", reason, " after step ", progress.step, " of ", steps, ", saved in ",
                     folder, "; the same command goes on"));
  else
    log::info(concat(nothing_was_left ? "nothing is left to do: " : "", steps, " steps done, saved in ",
                     folder, skipped,
                     progress.evaluation_due ? "; the last evaluation is left to the same command" : ""));
  log::info(memory_line(trainer_.device(), trainer_.mesh()));
  for (const auto& [why, count] : trainer_.device().read_backs())
    log::debug(concat("read back ", count, " times: ", why));
}

}  // namespace strata::train
