#include "train/traffic.h"

namespace strata::train {

Traffic operator-(const Traffic& a, const Traffic& b) {
  return {a.pipeline - b.pipeline, a.experts - b.experts, a.reductions - b.reductions};
}

Traffic sent(const Trainer& trainer) {
  const comm::Mesh& mesh = trainer.mesh();
  Traffic t{.pipeline = mesh.pipeline().traffic().bytes, .experts = mesh.expert().traffic().bytes};
  for (const comm::Communicator* c : {&mesh.all(), &mesh.data(), &mesh.expert_data()})
    t.reductions += c->traffic().bytes;
  for (const auto& [ranks, holders] : trainer.groups().holders) t.reductions += holders->traffic().bytes;
  return t;
}

}  // namespace strata::train
