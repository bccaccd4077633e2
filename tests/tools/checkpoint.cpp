// `strata checkpoint`: what is in one, and whether it is whole.
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "checkpoint/store.h"
#include "strata_binary.h"

namespace strata::test {
namespace {

using Json = nlohmann::json;

class Checkpoint : public ::testing::Test {
 protected:
  Checkpoint() {
    checkpoint::CheckpointStore store(place.path("ck"), {});
    for (const std::int64_t step : {10, 20}) {
      checkpoint::Snapshot s;
      s.step = step;
      s.files["model.safetensors"] = {{"norm", DType::Float32, {3}, std::vector<std::byte>(12)},
                                      {"head", DType::Float32, {2, 5}, std::vector<std::byte>(40)}};
      s.files["optimizer.safetensors"] = {};
      s.texts = {{"config.json", R"({"run": {"name": "small"}, "model": {"hidden_size": 16}})"}};
      store.save(s);
    }
  }
  Outcome checkpoint(std::vector<std::string> words) const {
    words.insert(words.begin(), "checkpoint");
    return place.strata(words);
  }
  void damage() const { place.write("ck/step_00000020/config.json", std::string(56, ' ')); }

  Workplace place;
};

TEST_F(Checkpoint, InspectsOne) {
  const Outcome o = checkpoint({"inspect", "ck/step_00000020"});
  EXPECT_EQ(o.status, 0) << o.err;
  EXPECT_EQ(o.out,
            "ck/step_00000020: step 20\n"
            "run small, hidden_size 16\n"
            "config.json: 56 bytes\n"
            "\n"
            "model.safetensors: 2 tensors, 13 values (13 F32), 212 bytes\n"
            "  F32  [2, 5]               head\n"
            "  F32  [3]                  norm\n"
            "\n"
            "optimizer.safetensors: 0 tensors, 0 values (none), 40 bytes\n");
}

TEST_F(Checkpoint, InspectsAndVerifiesFilesOfTwoRanks) {
  checkpoint::Snapshot s;
  s.step = 30;
  const auto tensor = [](const char* name, Dims dims) {
    return checkpoint::HostTensor{name, DType::Float32, dims, std::vector<std::byte>(4 * dims.numel())};
  };
  s.files["model-00002-of-00002.safetensors"] = {tensor("norm", {3})};
  s.files["optimizer-00001-of-00002.safetensors"] = {tensor("m.norm", {2})};
  s.files["optimizer-00002-of-00002.safetensors"] = {tensor("m.norm", {1})};
  s.files["optimizer-00001-of-00002.safetensors"][0].cut = {0, {3}};
  s.files["optimizer-00002-of-00002.safetensors"][0].cut = {2, {3}};
  checkpoint::CheckpointStore(place.path("ck"), {}).save(s);
  const Outcome o = checkpoint({"inspect", "ck/step_00000030"});
  EXPECT_EQ(o.out,
            "ck/step_00000030: step 30\n"
            "optimizer: 2 files, 3 values, 332 bytes\n"
            "\n"
            "model-00002-of-00002.safetensors: 1 tensors, 3 values (3 F32), 116 bytes\n"
            "  F32  [3]                  norm\n"
            "\n"
            "optimizer-00001-of-00002.safetensors: 1 tensors, 2 values (2 F32), 168 bytes\n"
            "  F32  [2] from 0 of [3]    m.norm\n"
            "\n"
            "optimizer-00002-of-00002.safetensors: 1 tensors, 1 values (1 F32), 164 bytes\n"
            "  F32  [1] from 2 of [3]    m.norm\n");
  const Json j = Json::parse(checkpoint({"inspect", "ck/step_00000030", "--json"}).out);
  EXPECT_EQ(j["files"]["optimizer-00002-of-00002.safetensors"]["tensors"]["m.norm"]["piece"],
            Json::parse(R"({"offset":2,"of":[3]})"));
  EXPECT_EQ(checkpoint({"verify", "ck/step_00000030"}).out, "ck/step_00000030: sound, step 30, 3 files\n");
  std::filesystem::remove(place.path("ck/step_00000030/optimizer-00001-of-00002.safetensors"));
  const Outcome damaged = checkpoint({"verify", "ck/step_00000030"});
  EXPECT_EQ(damaged.status, 1);
  EXPECT_EQ(damaged.out, "ck/step_00000030: damaged: optimizer-00001-of-00002.safetensors is missing\n");
}

TEST_F(Checkpoint, InspectsAsJson) {
  const Outcome o = checkpoint({"inspect", "ck/step_00000020", "--json"});
  EXPECT_EQ(o.status, 0) << o.err;
  const Json j = Json::parse(o.out);
  EXPECT_EQ(j.at("kind"), "checkpoint");
  EXPECT_EQ(j.at("step"), 20);
  EXPECT_EQ(j["files"]["model.safetensors"]["tensors"]["head"],
            Json::parse(R"({"dtype":"F32","shape":[2,5]})"));
  EXPECT_EQ(j["files"]["model.safetensors"]["values"], 13);
  EXPECT_EQ(j["texts"]["config.json"]["model"]["hidden_size"], 16);
  const Json root = Json::parse(checkpoint({"inspect", "ck", "--json"}).out);
  EXPECT_EQ(root.at("kind"), "checkpoints");
  EXPECT_EQ(root.at("steps").size(), 2u);
}

TEST_F(Checkpoint, InspectsARootAndASingleFile) {
  const Outcome root = checkpoint({"inspect", "ck"});
  EXPECT_TRUE(root.out.starts_with("ck: 2 checkpoints\n          step              size        folder\n"))
      << root.out;
  EXPECT_NE(root.out.find("  ck/step_00000010\n"), std::string::npos) << root.out;
  const Outcome file = checkpoint({"inspect", "ck/step_00000010/model.safetensors"});
  EXPECT_EQ(file.status, 0) << file.err;
  EXPECT_NE(file.out.find("2 tensors, 13 values (13 F32)"), std::string::npos) << file.out;
}

TEST_F(Checkpoint, VerifiesOneAndAll) {
  EXPECT_EQ(checkpoint({"verify", "ck/step_00000010"}).out, "ck/step_00000010: sound, step 10, 3 files\n");
  EXPECT_EQ(checkpoint({"verify", "ck/step_00000010/"}).status, 0);
  place.write("ck/step_00000010/notes", "");
  const Outcome o = checkpoint({"verify", "ck"});
  EXPECT_EQ(o.status, 0) << o.err;
  EXPECT_EQ(o.out,
            "ck/step_00000010: note: notes is not in the manifest\n"
            "ck/step_00000010: sound, step 10, 3 files\n"
            "ck/step_00000020: sound, step 20, 3 files\n");
  std::filesystem::create_directory(place.path("run"));
  std::filesystem::rename(place.path("ck"), place.path("run/checkpoints"));
  EXPECT_EQ(checkpoint({"verify", "run"}).status, 0);
  EXPECT_TRUE(checkpoint({"inspect", "run"}).out.starts_with("run: 2 checkpoints\n"));
}

TEST_F(Checkpoint, DamageIsNamedAndLeftAlone) {
  damage();
  std::filesystem::remove(place.path("ck/step_00000020/optimizer.safetensors"));
  for (const char* path : {"ck", "ck/step_00000020"}) {
    const Outcome o = checkpoint({"verify", path});
    EXPECT_EQ(o.status, 1) << o.err;
    EXPECT_NE(o.out.find("ck/step_00000020: damaged: config.json has checksum "), std::string::npos) << o.out;
    EXPECT_NE(o.out.find("ck/step_00000020: damaged: optimizer.safetensors is missing\n"), std::string::npos)
        << o.out;
  }
  EXPECT_TRUE(std::filesystem::exists(place.path("ck/step_00000020")));
  const Outcome o = checkpoint({"inspect", "ck/step_00000020"});
  EXPECT_EQ(o.status, 2);
  EXPECT_EQ(o.err, "strata: ck/step_00000020 is damaged: optimizer.safetensors is missing\n");
}

TEST_F(Checkpoint, WrongUsage) {
  const auto says = [&](const std::vector<std::string>& words, const std::string& sentence) {
    const Outcome o = checkpoint(words);
    EXPECT_EQ(o.status, 2);
    EXPECT_EQ(o.out, "");
    EXPECT_EQ(o.err, "strata: " + sentence + "\n");
  };
  says({}, "checkpoint: A subcommand is required");
  says({"inspet", "ck"},
       "checkpoint: \"inspet\" is not a command, nearest is inspect, there are inspect, verify, convert");
  says({"inspect"}, "checkpoint inspect: PATH is required");
  says({"inspect", "ck", "--jso"},
       "checkpoint inspect: --jso is not an option, nearest is --json, there are --help, --json");
  says({"inspect", "none"}, "none: no such file or folder");
  says({"verify", "none"}, "none: no such file or folder");
  says({"verify", "."},
       ". holds no checkpoint: neither step_... folders, nor manifest.json, nor model.safetensors");
}

}  // namespace
}  // namespace strata::test
