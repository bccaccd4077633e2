#include "data/dataset.h"

#include <algorithm>
#include <cstdio>
#include <numeric>

#include "base/error.h"
#include "data/batch_builder.h"
#include "data/fingerprint.h"

namespace strata::data {
namespace {

std::vector<double> weights_of(const DataSection& section) {
  if (section.train.empty())
    throw InputError("data.train is required: a list of token files, as in [{\"path\": \"data/corpus\"}]");
  std::vector<double> weights;
  for (const TrainSource& source : section.train) weights.push_back(source.weight);
  return weights;
}

std::string decimals(double x) {
  char text[64];
  std::snprintf(text, sizeof text, "%.2f", x);
  return text;
}

}  // namespace

TrainingData::TrainingData(const DataSection& section, std::int64_t seq_length, std::uint64_t seed,
                           std::int64_t vocab_size, std::int64_t samples_planned)
    : section_(section),
      seq_length_(seq_length),
      vocab_size_(vocab_size),
      samples_planned_(samples_planned),
      blend_(weights_of(section)) {
  constexpr std::int64_t kLooked = 1 << 16;  // tokens: a wrong vocabulary shows before the first step
  std::vector<std::int64_t> start;
  for (std::size_t i = 0; i < section.train.size(); ++i) {
    TokenFile file = open_source(section, concat("data.train[", i, "]"), section.train[i].path);
    start.resize(std::size_t(std::min(kLooked, file.tokens())));
    file.read(0, start, vocab_size);
    sources_.push_back(std::make_unique<Source>(std::move(file), seq_length, seed, std::int64_t(i)));
  }
  refuse_repetition();
}

void TrainingData::refuse_repetition() const {
  const std::vector<PlannedSource> planned = plan();
  for (std::size_t i = 0; i < planned.size(); ++i) {
    const auto& most = section_.train[i].max_epochs;
    if (!most || double(planned[i].samples) <= *most * double(planned[i].windows)) continue;
    throw InputError(concat("data.train[", i, "].max_epochs is ", *most, ", but ", planned[i].path, " has ",
                            planned[i].windows, " samples of ", seq_length_, " tokens, and the run plans ",
                            planned[i].samples, " of them, ", decimals(planned[i].epochs),
                            " epochs: shorten the run, lower its weight, or raise max_epochs"));
  }
}

HostBatch TrainingData::batch(std::int64_t first_sample, std::int64_t rows) {
  BatchBuilder builder(seq_length_, section_.reset_attention_mask, section_.eod_mask_loss);
  std::vector<std::int64_t> tokens(std::size_t(seq_length_ + 1)), documents(tokens.size());
  for (std::int64_t i = first_sample; i < first_sample + rows; ++i) {
    const Blend::Place place = blend_.at(i);
    Source& source = *sources_[place.source];
    std::size_t at = 0;
    std::int64_t number = 0;
    for (const Piece& piece : source.order.sample(place.index)) {
      const auto count = std::size_t(piece.count);
      source.file.read(piece.first, std::span(tokens).subspan(at, count), vocab_size_);
      std::fill_n(documents.begin() + std::ptrdiff_t(at), count, number++);
      at += count;
    }
    builder.add(tokens, documents);
  }
  return builder.take();
}

std::vector<PlannedSource> TrainingData::plan() const {
  const std::vector<std::int64_t> samples = blend_.counts(samples_planned_);
  std::vector<PlannedSource> all;
  for (std::size_t i = 0; i < sources_.size(); ++i) {
    const TokenFile& file = sources_[i]->file;
    const std::int64_t windows = sources_[i]->order.windows();
    all.push_back({.path = file.path(),
                   .format = file.format(),
                   .tokens = file.tokens(),
                   .documents = file.documents(),
                   .windows = windows,
                   .share = blend_.share(i),
                   .samples = samples[i],
                   .epochs = double(samples[i]) / double(windows)});
  }
  return all;
}

std::string TrainingData::fingerprint() const {
  Fingerprint sum;
  sum.add(seq_length_);
  for (std::size_t i = 0; i < sources_.size(); ++i) {
    sum.add(blend_.part(i));
    sum.add(sources_[i]->file);
  }
  return sum.hex();
}

std::int64_t TrainingData::tokens() const {
  return std::accumulate(sources_.begin(), sources_.end(), std::int64_t(0),
                         [](std::int64_t sum, const auto& source) { return sum + source->file.tokens(); });
}

}  // namespace strata::data
