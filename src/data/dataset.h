// What a run trains on. Sample i of a run is a function of the data, their weights, seq_length, the seed and
// i: never of the length of the run, its layout or the machine.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "data/blend.h"
#include "data/config.h"
#include "data/token_file.h"
#include "data/window_order.h"
#include "tensor/host_batch.h"

namespace strata::data {

// What a run of samples_planned samples takes from one source.
struct PlannedSource {
  std::string path;
  TokenFormat format;
  std::int64_t tokens, documents;
  std::int64_t windows;  // samples of one epoch
  double share;          // of the run's samples
  std::int64_t samples;  // planned
  double epochs;         // planned: samples / windows
};

class TrainingData {
 public:
  // InputError: a source cannot be used, is shorter than one window, or would be repeated more than its
  // max_epochs.
  TrainingData(const DataSection& section, std::int64_t seq_length, std::uint64_t seed,
               std::int64_t vocab_size, std::int64_t samples_planned);

  // Samples [first_sample, first_sample + rows) of the endless order; the batch has documents with
  // reset_attention_mask. Any place is reached at once. Not for two threads at a time.
  HostBatch batch(std::int64_t first_sample, std::int64_t rows);
  std::vector<PlannedSource> plan() const;
  // 32 hex digits of all that the order depends on but the seed: contents, documents, weights, seq_length;
  // not of paths or times. Of files beyond 1 GiB, blocks are sampled.
  std::string fingerprint() const;
  std::int64_t tokens() const;  // of all sources, each once

 private:
  struct Source {
    Source(TokenFile f, std::int64_t seq_length, std::uint64_t seed, std::int64_t stream)
        : file(std::move(f)), order(file, seq_length, seed, stream) {}

    TokenFile file;
    WindowOrder order;
  };
  void refuse_repetition() const;

  DataSection section_;
  std::int64_t seq_length_, vocab_size_, samples_planned_;
  Blend blend_;
  std::vector<std::unique_ptr<Source>> sources_;
};

}  // namespace strata::data
