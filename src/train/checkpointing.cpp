#include "train/checkpointing.h"

#include <algorithm>
#include <cstdio>
#include <set>
#include <sstream>

#include "checkpoint/weight_set.h"
#include "model/stage.h"
#include "train/file_shape.h"
#include "train/weights.h"

namespace strata::train {
namespace {

using checkpoint::HostTensor;

constexpr const char* kModel = "model";
constexpr const char* kOptimizer = "optimizer";
constexpr const char* kState = "state.json";

// "model.safetensors" of one rank alone, "model-00002-of-00008.safetensors" of the second of eight.
std::string file_name(const char* what, int rank, int ranks) {
  char name[64];
  std::snprintf(name, sizeof name, "%s-%05d-of-%05d.safetensors", what, rank + 1, ranks);
  return ranks == 1 ? concat(what, ".safetensors") : name;
}

HostTensor host_copy(device::Device& device, const std::string& name, const Tensor& t) {
  HostTensor h{name, t.dtype(), t.dims(), std::vector<std::byte>(std::size_t(t.bytes()))};
  device.read_back(h.bytes.data(), t.view().data, t.bytes(), "checkpoint");
  return h;
}

// Whole weights: of the ranks that have one, that writes it which answers for its first element.
std::set<std::string> names_to_write(Trainer& trainer) {
  std::set<std::string> mine;
  for (const optim::StatePiece& p : optim::weight_pieces(trainer.store(), trainer.groups()))
    if (p.offset == 0) mine.insert(p.name);
  return mine;
}

// Router biases are the same on all data ranks.
std::vector<HostTensor> weights_to_write(Trainer& trainer) {
  const std::set<std::string> mine = names_to_write(trainer);
  std::vector<HostTensor> weights;
  trainer.optimizer().visit_masters([&](const std::string& name, const Tensor& master) {
    if (mine.count(name)) weights.push_back(host_copy(trainer.device(), name, master));
  });
  for (const Buffer& b : trainer.store().buffers())
    if (trainer.mesh().data_rank() == 0) weights.push_back(host_copy(trainer.device(), b.name, b.value));
  trainer.device().compute().synchronize();  // begun on every rank before the host waits for others
  std::sort(weights.begin(), weights.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  return weights;
}

std::vector<HostTensor> moments_to_write(Trainer& trainer) {
  std::vector<HostTensor> moments;
  for (const optim::StatePiece& p : trainer.optimizer().pieces()) {
    HostTensor& t = moments.emplace_back(host_copy(trainer.device(), p.name, p.values));
    if (p.count == p.dims.numel())
      t.dims = p.dims;
    else
      t.cut = {p.offset, shape_of(p.dims)};
  }
  return moments;
}

// Which rank's file has which weight.
std::string index_of_weights(comm::Communicator& ranks, const std::vector<HostTensor>& mine) {
  std::string lines;
  for (const HostTensor& t : mine) lines += concat(t.bytes.size(), " ", t.name, "\n");
  const std::vector<std::string> all = comm::gather_texts(ranks, lines);
  std::map<std::string, std::string> file_of_weight;
  std::int64_t total = 0, bytes = 0;
  for (int rank = 0; rank < ranks.size(); ++rank) {
    std::istringstream text(all[rank]);
    for (std::string name; text >> bytes >> name; total += bytes)
      STRATA_CHECK(file_of_weight.emplace(name, file_name(kModel, rank, ranks.size())).second, "rank ", rank,
                   " is not the only one that writes ", name);
  }
  return checkpoint::weight_index(file_of_weight, total);
}

checkpoint::CutTensors open_moments(const checkpoint::Opened& opened) {
  std::vector<checkpoint::SafetensorsFile> files;
  for (const auto& [name, file] : opened.manifest().files)
    if (name.starts_with(kOptimizer) && name.ends_with(".safetensors")) files.push_back(opened.file(name));
  const std::string source = files.size() == 1 ? files[0].path() : opened.folder();
  return {source, std::move(files)};
}

// Whether they are exactly the moments of the whole model.
void check_moments(const RunConfig& config, const checkpoint::CutTensors& moments) {
  ParameterStore names;
  model::add_parameters(config.model, names);
  std::map<std::string, std::vector<std::int64_t>> wanted;
  for (const std::string& prefix : optim::moment_prefixes(config.optimizer))
    for (const auto& [name, found] : names.by_name())
      if (found.parameter) wanted[prefix + name] = shape_of(found.slice.dims);
  for (const auto& [name, have] : moments.all())
    if (!wanted.count(name))
      throw InputError(concat(have.path, ": ", name, " is no moment of this run's optimizer"));
  for (const auto& [name, shape] : wanted) {
    const auto have = moments.all().find(name);
    if (have == moments.all().end())
      throw InputError(concat(moments.source(), " has no tensor \"", name, "\""));
    if (have->second.shape != shape)
      throw InputError(concat(have->second.path, ": ", name, " is ", text_of(have->second.shape),
                              ", the weight is ", text_of(shape)));
  }
}

}  // namespace

checkpoint::Snapshot capture(Trainer& trainer, const Progress& progress, const std::string& config_json,
                             const std::string& origins_json) {
  comm::Communicator& ranks = trainer.mesh().all();
  const bool alone = ranks.size() == 1;
  checkpoint::Snapshot s;
  s.step = progress.step;
  if (ranks.rank() == 0)
    s.texts = {
        {kState, progress_json(progress)}, {"config.json", config_json}, {"origins.json", origins_json}};
  std::vector<HostTensor> weights = weights_to_write(trainer), moments = moments_to_write(trainer);
  if (!alone) {
    const std::string index = index_of_weights(ranks, weights);
    if (ranks.rank() == 0) s.texts[checkpoint::kIndexName] = index;
  }
  if (alone || !weights.empty()) s.files[file_name(kModel, ranks.rank(), ranks.size())] = std::move(weights);
  if (alone || !moments.empty())  // SGD without momentum has none, and the file of one rank is there
    s.files[file_name(kOptimizer, ranks.rank(), ranks.size())] = std::move(moments);
  return s;
}

std::int64_t captured_bytes(Trainer& trainer) {
  std::int64_t bytes = 0;
  const auto& all = trainer.store().by_name();
  for (const std::string& name : names_to_write(trainer)) {
    const ParameterStore::Found& found = all.at(name);
    bytes += found.slice.dims.numel() * size_of(found.parameter->bucket->master.dtype());
  }
  for (const Buffer& b : trainer.store().buffers())
    if (trainer.mesh().data_rank() == 0) bytes += b.value.bytes();
  for (const optim::StatePiece& p : trainer.optimizer().pieces()) bytes += p.values.bytes();
  return bytes;
}

Progress restore(Trainer& trainer, const checkpoint::Opened& opened) {
  const Progress progress = parse_progress(opened.text(kState), opened.folder() + "/" + kState);
  load_weights(trainer.store(), checkpoint::named_weights(checkpoint::WeightSet(opened.weights_path())),
               trainer.config().model);
  const checkpoint::CutTensors moments = open_moments(opened);
  check_moments(trainer.config(), moments);
  for (const optim::Piece& p : trainer.optimizer().held())
    trainer.optimizer().set_moment(p.name, moments.floats(p.name, p.offset, p.count), p.offset);
  trainer.set_steps(progress.step, progress.updates);
  return progress;
}

}  // namespace strata::train
