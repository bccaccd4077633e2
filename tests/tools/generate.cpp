// `strata generate`: the text it writes, token by token as whole passes over the text so far would choose
// them, from a file and from a checkpoint; where it ends; what it refuses.
#include <gtest/gtest.h>

#include <cstring>
#include <nlohmann/json.hpp>

#include "base/json_config.h"
#include "checkpoint/store.h"
#include "model/sampling.h"
#include "model/stage.h"
#include "strata_binary.h"
#include "train/config.h"

namespace strata::test {
namespace {

using Json = nlohmann::json;
using Words = std::vector<std::string>;

const std::string kPrompt = "It is a truth";

class Generate : public ::testing::Test {
 protected:
  void SetUp() override {
    load_config(
        config, tiny_config(),
        {"precision.compute=float64", "model.tie_word_embeddings=false", "model.initializer_range=0.3"});
    place.write("c.json", config_json(config));
    stage = std::make_unique<model::Stage>(config.model,
                                           model::StageRange{0, int(config.model.num_hidden_layers)}, store);
    store.allocate(device, DType::Float64, false);
    stage->allocate(device);
    store.initialize(7);
    write_weights();
  }
  void write_weights() {
    checkpoint::SafetensorsWriter writer;
    for (const auto& [name, found] : store.by_name()) {
      const Dims& d = found.slice.dims;
      writer.add(name, "F64", {d.extent.begin(), d.extent.begin() + d.rank},
                 to_host(device, found.master(), "test"));
    }
    writer.write(place.path("w.safetensors"));
  }

  Outcome run(Words more) const {
    Words words{"generate", "--config", "c.json", "--weights", "w.safetensors"};
    words.insert(words.end(), more.begin(), more.end());
    return place.strata(words);
  }
  Json json(Words more) const {
    more.insert(more.end(), {"--prompt", kPrompt, "--json"});
    const Outcome o = run(more);
    EXPECT_EQ(o.status, 0) << o.err;
    return Json::parse(o.out);
  }
  // Every token from a pass over all tokens before it.
  std::vector<std::int64_t> expected(const model::SamplingRule& rule, std::uint64_t seed, int count) const {
    std::vector<std::int64_t> ids(kPrompt.begin(), kPrompt.end());
    model::Sampler sampler(rule, seed);
    while (int(ids.size() - kPrompt.size()) < count) {
      const model::MicroBatch batch = model::upload(
          device,
          {.rows = 1, .length = std::int64_t(ids.size()), .input_ids = ids, .labels = {}, .documents = {}},
          false);
      Tape tape(device, {.recording = false, .recompute = {}, .observer = nullptr, .replay = true});
      std::vector<double> logits = to_host(device, stage->logits(tape, batch, 1), "test");
      logits.resize(257);
      const std::int64_t id = sampler.next(logits);
      if (id == 256) break;
      ids.push_back(id);
    }
    return {ids.begin() + std::ptrdiff_t(kPrompt.size()), ids.end()};
  }

  train::RunConfig config;
  mutable device::Device device;
  ParameterStore store;
  std::unique_ptr<model::Stage> stage;
  Workplace place;
};

TEST_F(Generate, ChoosesWhatWholePassesWould) {
  const std::string count = "30";
  EXPECT_EQ(json({"--max-new-tokens", count, "--temperature", "0"})["tokens"], expected({0, 0, 1}, 0, 30));
  EXPECT_EQ(json({"--max-new-tokens", count, "--top-k", "1"})["tokens"], expected({0, 0, 1}, 0, 30));
  EXPECT_EQ(json({"--max-new-tokens", count, "--seed", "5"})["tokens"], expected({1, 0, 1}, 5, 30));
  EXPECT_EQ(json({"--max-new-tokens", count, "--temperature", "0.6", "--top-k", "40", "--top-p", "0.9",
                  "--seed", "18446744073709551615"})["tokens"],
            expected({0.6, 40, 0.9}, ~std::uint64_t(0), 30));
}

TEST_F(Generate, PrintsBytesAndSaysHowFast) {
  const Words words{"--max-new-tokens", "20", "--seed", "3"};
  const Json j = json(words);
  std::string text;
  for (const std::int64_t id : j["tokens"]) text += char(id);
  Words plain = words;
  plain.insert(plain.end(), {"--prompt", kPrompt});
  const Outcome o = run(plain);
  EXPECT_EQ(o.status, 0);
  EXPECT_EQ(o.out, text + "\n");
  EXPECT_EQ(without_times(o.err).find("info: prompt: 13 tokens, "), 0u) << o.err;
  EXPECT_EQ(run(plain).out, o.out) << "the same seed";
  plain[3] = "4";
  EXPECT_NE(run(plain).out, o.out) << "another seed";
  EXPECT_EQ(j["prompt_tokens"], 13);
}

TEST_F(Generate, AFileIsAPromptByteByByte) {
  place.write("p.txt", kPrompt);
  const Words words{"--max-new-tokens", "8", "--temperature", "0"};
  Words given = words, file = words;
  given.insert(given.end(), {"--prompt", kPrompt});
  file.insert(file.end(), {"--prompt-file", "p.txt"});
  EXPECT_EQ(run(file).out, run(given).out);
  place.write("p.txt", kPrompt + "\n");
  EXPECT_NE(run(file).out, run(given).out);
}

// The head's rows of one token and of another are opposite, so that one of them ends the text at once. A
// token beyond the tokenizer's is the most probable, and is not taken.
TEST_F(Generate, StopsAtTheEndOfADocument) {
  const std::int64_t D = config.model.hidden_size, V = config.model.vocab_size;
  int ended = 0;
  for (const double sign : {1.0, -1.0}) {
    std::vector<double> head(V * D, 0.0);
    head[65 * D] = sign;
    head[256 * D] = -sign;
    head[257 * D] = -2 * sign, head[258 * D] = 2 * sign;
    store.set("lm_head.weight", head);
    write_weights();
    const Json j = json({"--max-new-tokens", "1", "--temperature", "0"});
    const bool end = j["end_of_document"];
    EXPECT_EQ(j["text"], end ? "" : "A");
    EXPECT_EQ(j["tokens"].size(), end ? 0u : 1u);
    ended += end;
  }
  EXPECT_EQ(ended, 1);
}

TEST_F(Generate, ReadsACheckpointOrTheNewestOfAFolder) {
  checkpoint::Snapshot snapshot;
  for (const auto& [name, found] : store.by_name()) {
    const std::vector<double> values = to_host(device, found.master(), "test");
    checkpoint::HostTensor t{name, DType::Float64, found.slice.dims,
                             std::vector<std::byte>(8 * values.size())};
    std::memcpy(t.bytes.data(), values.data(), t.bytes.size());
    snapshot.files["model.safetensors"].push_back(std::move(t));
  }
  snapshot.texts["config.json"] = config_json(config);
  checkpoint::CheckpointStore(place.path("all"), {}).save(snapshot);
  snapshot.step = 7;
  checkpoint::CheckpointStore(place.path("all"), {}).save(snapshot);
  const Words more{"--prompt", kPrompt, "--max-new-tokens", "9", "--seed", "2"};
  const std::string want = run(more).out;
  for (const char* folder : {"all", "all/step_00000007"}) {
    Words words{"generate", "--checkpoint", folder};
    words.insert(words.end(), more.begin(), more.end());
    const Outcome o = place.strata(words);
    EXPECT_EQ(o.status, 0) << o.err;
    EXPECT_EQ(o.out, want) << folder;
  }
}

TEST_F(Generate, RefusesWhatItCannotUse) {
  const auto refusal = [&](const Words& words, const std::string& message) {
    const Outcome o = words.at(0) == "generate" ? place.strata(words) : run(words);
    EXPECT_EQ(o.status, 2) << message;
    EXPECT_EQ(o.out, "");
    EXPECT_EQ(o.err, "strata: " + message + "\n");
  };
  const auto with = [](Words more) {
    more.insert(more.end(), {"--prompt", "x"});
    return more;
  };
  refusal({"--prompt", ""}, "the prompt is empty; at least one token is needed");
  refusal({"--prompt-file", "none.txt"}, "cannot read none.txt: No such file or directory");
  refusal({"--json"}, "generate: --prompt or --prompt-file is required");
  refusal({"--prompt", "a", "--prompt-file", "b"}, "generate: --prompt excludes --prompt-file");
  refusal({"generate", "--prompt", "a"}, "generate: --checkpoint, or --config and --weights, is required");
  refusal({"generate", "--prompt", "a", "--weights", "w.safetensors"},
          "generate: --weights requires --config");
  refusal(with({"--checkpoint", "x"}), "generate: --config excludes --checkpoint");
  refusal(with({"--temperature", "-0.5"}), "temperature is -0.5; a number from 0 is allowed");
  refusal(with({"--temperature", "nan"}), "temperature is nan; a number from 0 is allowed");
  refusal(with({"--top-k", "-1"}), "generate: --top-k: -1 is not a whole number from 0");
  refusal(with({"--top-p", "0"}), "top-p is 0; a number above 0 and up to 1 is allowed");
  refusal(with({"--top-p", "1.5"}), "top-p is 1.5; a number above 0 and up to 1 is allowed");
  refusal({"--prompt", "hz", "--set", "model.vocab_size=120"},
          "token 1 of the prompt is 122; token ids are 0 to 119 (model.vocab_size)");
  refusal({"generate", "--config", "c.json", "--weights", "none", "--prompt", "x"},
          "cannot read none: no such file");
  for (const char* count : {"0", "-3", "1.5", "x"})
    EXPECT_EQ(run(with({"--max-new-tokens", count})).status, 2) << count;
  const Outcome memory = run(with({"--max-new-tokens", "1000000000000"}));
  EXPECT_EQ(memory.status, 2);
  EXPECT_EQ(memory.err.find("strata: a prompt of 1 tokens and 1000000000000 new ones take "), 0u)
      << memory.err;
  const Outcome folder = place.strata({"generate", "--checkpoint", "none", "--prompt", "x"});
  EXPECT_EQ(folder.status, 2);
  EXPECT_EQ(folder.err.find("strata: none"), 0u) << folder.err;
}

}  // namespace
}  // namespace strata::test
