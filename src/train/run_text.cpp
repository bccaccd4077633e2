#include "train/run_text.h"

#include <omp.h>

#include <algorithm>

#include "pipeline/validate.h"
#include "train/layout_plan.h"

namespace strata::train {

std::string duration(double seconds) {
  const auto s = static_cast<long long>(seconds + 0.5);
  return s >= 3600 ? format("%lldh%02lldm", s / 3600, s / 60 % 60) : format("%lldm%02llds", s / 60, s % 60);
}

std::string megabytes(std::int64_t bytes) { return format("%.1f MB", double(bytes) / 1e6); }

namespace {

std::int64_t model_parameters(const model::ModelConfig& config) {
  ParameterStore names;
  model::add_parameters(config, names);
  return names.count();
}

// "layout: 8 ranks = 2 pipeline x 4 data, experts over 2; 1f1b, 16 micro-batches a rank, bubble 5.9%, at most
// 2 in flight".
std::string layout_line(const RunConfig& config, Trainer& trainer) {
  const comm::MeshShape& shape = trainer.mesh().shape();
  std::string line = concat("layout: ", shape.world(), " ranks = ", shape.pipeline, " pipeline x ",
                            shape.data, " data, experts over ", shape.expert);
  const int each = int(micro_batches(config, shape.world()));
  const pipeline::ScheduleReport report = pipeline::validate(trainer.schedule(each));
  line += concat("; ", each, each == 1 ? " micro-batch" : " micro-batches", " a rank");
  if (shape.pipeline > 1)
    line +=
        concat(", ", name_of(config.parallel.schedule()), format(", bubble %.1f%%", 100 * report.bubble),
               ", at most ", *std::max_element(report.peak_in_flight.begin(), report.peak_in_flight.end()),
               " in flight");
  return line;
}

}  // namespace

std::vector<std::string> introduction(const RunConfig& config, Trainer& trainer,
                                      const data::TrainingData& data, const MemoryOutlook& memory) {
  const TrainingSection& t = config.training;
  const double tokens = double(t.iterations()) * double(t.batch_size()) * double(t.seq_length);
  std::vector<std::string> lines{
      concat("run ", config.run.name, " in ", config.run.folder(), ": cpu, ", omp_get_max_threads(),
             " threads, seed ", config.run.seed),
      concat("model: ", format("%.2fM", double(model_parameters(config.model)) / 1e6),
             " parameters, residual ", name_of(config.model.residual.type), ", ",
             name_of(config.precision.compute)),
      concat("data: ", data.tokens(), " tokens; ", t.iterations(), " steps of ", t.batch_size(), " x ",
             t.seq_length, " tokens, ", format("%.0f tokens in all", tokens))};
  if (trainer.mesh().shape().world() > 1) lines.push_back(layout_line(config, trainer));
  lines.push_back(memory.planned);
  for (const data::PlannedSource& s : data.plan())
    lines.push_back(concat("data: ", s.path, " (", name_of(s.format), "): ", s.tokens, " tokens, ",
                           s.documents, s.documents == 1 ? " document; " : " documents; ", s.samples,
                           format(" samples (%.2f%%), %.2f epochs planned", 100 * s.share, s.epochs)));
  return lines;
}

std::string progress_line(const StepResult& r, std::int64_t steps, double tokens_per_second,
                          std::optional<double> share, double left) {
  return format("step %lld/%lld  lm loss %.4f  lr %.3e  grad norm %.3f  %.0f tok/s%s  ETA %s",
                (long long)r.step, (long long)steps, r.lm_loss, r.learning_rate, r.grad_norm,
                tokens_per_second, share ? format("  %.1f%% of peak", 100 * *share).c_str() : "",
                duration(left).c_str());
}

std::string memory_line(device::Device& device, const comm::Mesh& mesh) {
  const bool alone = mesh.shape().world() == 1;
  std::string use = concat("peak memory", alone ? "" : concat(" of rank ", mesh.world().rank()), ": ") +
                    megabytes(device.memory().total().peak);
  for (int p = 0; p < device::kPurposes; ++p)
    use += concat(", ", device::name_of(device::Purpose(p)), " ",
                  megabytes(device.memory().use(device::Purpose(p)).peak));
  return use;
}

}  // namespace strata::train
