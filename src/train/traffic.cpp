#include "train/traffic.h"

namespace strata::train {

namespace {

comm::Traffic minus(const comm::Traffic& a, const comm::Traffic& b) {
  return {a.bytes - b.bytes, a.messages - b.messages};
}

}  // namespace

Traffic operator-(const Traffic& a, const Traffic& b) {
  return {minus(a.pipeline, b.pipeline), minus(a.experts, b.experts), minus(a.reductions, b.reductions)};
}

Traffic sent(const Trainer& trainer) {
  const comm::Mesh& mesh = trainer.mesh();
  Traffic t{.pipeline = mesh.pipeline().traffic(), .experts = mesh.expert().traffic(), .reductions = {}};
  const auto add = [&](const comm::Communicator& c) {
    t.reductions.bytes += c.traffic().bytes;
    t.reductions.messages += c.traffic().messages;
  };
  for (const comm::Communicator* c : {&mesh.all(), &mesh.data(), &mesh.expert_data()}) add(*c);
  for (const auto& [ranks, holders] : trainer.groups().holders) add(*holders);
  return t;
}

}  // namespace strata::train
