// Five training steps of seventeen models against numbers of an independent float64 implementation. The
// fixtures leave out most trained weights to stay small; those in $STRATA_TEST_DATA/golden, if set, are
// compared in full.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "base/json_config.h"
#include "support/test_device.h"
#include "train/batch_file.h"
#include "train/trace.h"
#include "train/weights.h"

namespace strata::test {
namespace {

constexpr const char* kCases[] = {"attnres_block",
                                  "attnres_full",
                                  "attnres_mhc",
                                  "layout_mhc",
                                  "layout_msar_block",
                                  "layout_vanilla",
                                  "mhc",
                                  "msar_block",
                                  "msar_block_mean_fusion",
                                  "msar_block_no_conv",
                                  "msar_full",
                                  "msar_packed_documents",
                                  "odd_sizes",
                                  "q_lora_and_mtp",
                                  "router_groups_and_aux_losses",
                                  "vanilla_gqa_softmax",
                                  "vanilla_mla"};

std::string folder(const std::string& name) {
  namespace fs = std::filesystem;
  const char* whole = std::getenv("STRATA_TEST_DATA");
  return (fs::path(whole ? whole : STRATA_TEST_FIXTURES) / "golden" / name).string();
}

class Golden : public ::testing::TestWithParam<const char*> {
 protected:
  void compare(const std::string& precision, const std::vector<std::string>& more = {}) {
    const std::string dir = folder(GetParam());
    train::RunConfig config;
    std::vector<std::string> overrides{"precision.compute=" + precision,
                                       "optimizer.lr=3e-3",
                                       "optimizer.eps=1e-6",
                                       "optimizer.beta1=0.9",
                                       "optimizer.beta2=0.95",
                                       "optimizer.clip_grad=1",
                                       "optimizer.weight_decay=0.1",
                                       "training.micro_batch_size=2"};
    overrides.insert(overrides.end(), more.begin(), more.end());
    load_config(config, dir + "/config.json", overrides);
    device::Device device(device_options());
    train::Trainer trainer(config, device);
    train::load_weights(trainer.store(), checkpoint::SafetensorsFile(dir + "/model.safetensors"));
    const HostBatch batch = train::load_batch(dir + "/batch.safetensors");
    const train::TraceTensors ours = train::trace(trainer, config, batch, 5);
    const checkpoint::SafetensorsFile expected(dir + "/expected.safetensors");
    const auto all =
        train::compare(ours, expected, train::reference_tolerance(config.precision.dtype()), true);
    EXPECT_GT(all.size(), 100u);
    for (std::size_t i = 0; i < all.size() && i < 12; ++i)
      EXPECT_TRUE(all[i].within()) << all[i].name << " " << all[i].missing << " " << all[i].value << " > "
                                   << all[i].tolerance;
  }
};

TEST_P(Golden, Float64) { compare("float64"); }
TEST_P(Golden, Float32) { compare("float32"); }
TEST_P(Golden, BFloat16) { compare("bfloat16"); }
TEST_P(Golden, Float64OneSequencePerMicroBatchFullRecompute) {
  compare("float64", {"training.micro_batch_size=1", "recompute.granularity=full"});
}
TEST_P(Golden, Float64SelectiveRecompute) { compare("float64", {"recompute.granularity=selective"}); }

INSTANTIATE_TEST_SUITE_P(Cases, Golden, ::testing::ValuesIn(kCases),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace strata::test
