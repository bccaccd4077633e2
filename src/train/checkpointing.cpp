#include "train/checkpointing.h"

#include "train/file_shape.h"
#include "train/weights.h"

namespace strata::train {
namespace {

constexpr const char* kModel = "model.safetensors";
constexpr const char* kOptimizer = "optimizer.safetensors";
constexpr const char* kState = "state.json";

checkpoint::HostTensor host_copy(device::Device& device, const std::string& name, const Tensor& t) {
  checkpoint::HostTensor h{name, t.dtype(), t.dims(), std::vector<std::byte>(std::size_t(t.bytes()))};
  device.read_back(h.bytes.data(), t.view().data, t.bytes(), "checkpoint");
  return h;
}

void restore_moments(Trainer& trainer, const checkpoint::SafetensorsFile& file) {
  const std::map<std::string, Tensor> state = trainer.optimizer().state();
  for (const auto& [name, t] : file.tensors())
    if (!state.count(name))
      throw InputError(concat(file.path(), ": ", name, " is no moment of this run's optimizer"));
  for (const auto& [name, moment] : state) {
    const std::vector<std::int64_t> have = file.at(name).shape, want = shape_of(moment.dims());
    if (have != want)
      throw InputError(
          concat(file.path(), ": ", name, " is ", text_of(have), ", the weight is ", text_of(want)));
    from_host(trainer.device(), moment, file.floats(name));
  }
}

}  // namespace

checkpoint::Snapshot capture(Trainer& trainer, const Progress& progress, const std::string& config_json,
                             const std::string& origins_json) {
  checkpoint::Snapshot s;
  s.step = progress.step;
  for (const auto& [name, found] : trainer.store().by_name())
    s.files[kModel].push_back(host_copy(trainer.device(), name, found.master()));
  s.files[kOptimizer];  // SGD without momentum has none, and the file is there
  for (const auto& [name, moment] : trainer.optimizer().state())
    s.files[kOptimizer].push_back(host_copy(trainer.device(), name, moment));
  s.texts = {{kState, progress_json(progress)}, {"config.json", config_json}, {"origins.json", origins_json}};
  return s;
}

Progress restore(Trainer& trainer, const checkpoint::Opened& opened) {
  const Progress progress = parse_progress(opened.text(kState), opened.folder() + "/" + kState);
  load_weights(trainer.store(), opened.file(kModel));
  restore_moments(trainer, opened.file(kOptimizer));
  trainer.set_steps(progress.step, progress.updates);
  return progress;
}

}  // namespace strata::train
