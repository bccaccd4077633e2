// Small checkpoints that differ by their seed, and the sentence with which something is refused.
#pragma once
#include <gtest/gtest.h>

#include <cstring>

#include "base/error.h"
#include "checkpoint/store.h"
#include "support/temp_folder.h"

namespace strata::test {

using checkpoint::CheckpointStore;
using checkpoint::HostTensor;
using checkpoint::KeepPolicy;
using checkpoint::Snapshot;

template <class T>
HostTensor host_tensor(const std::string& name, Dims dims, const std::vector<T>& values) {
  HostTensor t{name, dtype_of<T>(), dims, std::vector<std::byte>(values.size() * sizeof(T))};
  if (!values.empty()) std::memcpy(t.bytes.data(), values.data(), t.bytes.size());
  return t;
}

inline Snapshot sample_snapshot(std::int64_t step, float seed = 0) {
  Snapshot s;
  s.step = step;
  s.files["model.safetensors"] = {host_tensor<float>("model.norm.weight", {3}, {seed, float(step), -0.5f}),
                                  host_tensor<float>("lm_head.weight", {2, 2}, {1, 2, 3, seed + 4})};
  s.files["optimizer.safetensors"] = {host_tensor<double>("exp_avg", {1}, {seed + 0.25}),
                                      host_tensor<std::int64_t>("count", {2}, {step, 7})};
  s.texts = {{"config.json", "{\"run\": {\"name\": \"sample\"}}\n"},
             {"state.json", concat("{\"tokens\": ", step * 100, "}")}};
  return s;
}

// Everything that a snapshot of this step and seed holds.
inline void expect_sample(const checkpoint::Opened& opened, std::int64_t step, float seed = 0) {
  const Snapshot want = sample_snapshot(step, seed);
  EXPECT_EQ(opened.step(), step);
  EXPECT_EQ(opened.manifest().files.size(), want.files.size() + want.texts.size());
  for (const auto& [name, text] : want.texts) EXPECT_EQ(opened.text(name), text) << name;
  for (const auto& [name, tensors] : want.files) {
    const checkpoint::SafetensorsFile file = opened.file(name);
    EXPECT_EQ(file.tensors().size(), tensors.size()) << name;
    for (const HostTensor& t : tensors) {
      std::vector<std::byte> bytes(t.bytes.size());
      file.read(t.name, std::span(bytes));
      EXPECT_EQ(bytes, t.bytes) << t.name;
      EXPECT_EQ(file.at(t.name).dtype, checkpoint::file_type(t.dtype)) << t.name;
    }
  }
}

// The sentence of the error that `call` throws; of InputErrors only, where asked.
template <class Kind = Error, class F>
std::string message_of(F&& call) {
  try {
    call();
  } catch (const Kind& e) {
    return e.what();
  }
  return "no error";
}

// A safetensors file of this header and data.
inline void write_safetensors(const std::string& path, const std::string& header, const std::string& data) {
  const std::uint64_t length = header.size();
  write_file(path, std::string(reinterpret_cast<const char*>(&length), 8) + header + data);
}

// What is wrong with a safetensors file.
inline std::string fault_of(const std::string& path) {
  const std::string text = message_of<InputError>([&] { const checkpoint::SafetensorsFile file(path); });
  const std::string start = path + " is not a sound safetensors file: ";
  return text.starts_with(start) ? text.substr(start.size()) : text;
}

// The newest sound checkpoint and what was reported on the way.
struct Found {
  std::optional<checkpoint::Opened> opened;
  std::vector<std::string> reports;
};
inline Found find_newest(CheckpointStore& store, checkpoint::Check check = checkpoint::Check::Checksums) {
  Found f;
  f.opened = store.newest_sound([&](const std::string& sentence) { f.reports.push_back(sentence); }, check);
  return f;
}

}  // namespace strata::test
