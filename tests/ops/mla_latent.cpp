// The compressed key-value row: normalised latent and turned key, together and one output alone.
#include "ops/mla_latent.h"

#include <gtest/gtest.h>

#include "ops/rms_norm.h"
#include "reference/rms_norm.h"
#include "reference/rope.h"
#include "support/op_case.h"
#include "support/test_device.h"

namespace strata::test {
namespace {

using reference::Array;

Array columns(const Array& x, std::int64_t begin, std::int64_t end) {
  Array y({x.dim(0), end - begin});
  for (std::int64_t t = 0; t < x.dim(0); ++t)
    for (std::int64_t i = begin; i < end; ++i) y(t, i - begin) = x(t, i);
  return y;
}

struct MlaLatentCase : OpCase {
  enum Outputs { Both, LatentOnly, KeyOnly };
  std::int64_t batch, length, rank, width;
  Outputs wanted;

  MlaLatentCase(std::int64_t batch_, std::int64_t length_, std::int64_t rank_, std::int64_t width_,
                Outputs wanted_)
      : batch(batch_), length(length_), rank(rank_), width(width_), wanted(wanted_) {
    releases = Recompute::Norm;
  }
  std::vector<OpInput> inputs() const override {
    return {{"x", {batch * length, rank + width}}, {"weight", {rank}, OpInput::FullWeight, 0.3, 1}};
  }
  std::vector<Var> run(Tape& tape, const OpArgs& in) const override {
    const auto [latent, key] = ops::mla_latent(tape, in.var("x"), in.weight("weight"), 1e-3, 500, length);
    if (wanted == Both) return {latent, key};
    return {wanted == LatentOnly ? latent : key};
  }
  std::vector<Array> reference(const Arrays& in) const override {
    const Array& x = in.at("x");
    const Array latent = reference::rms_norm(columns(x, 0, rank), in.at("weight"), 1e-3);
    const Array key = reference::rope(columns(x, rank, rank + width).reshaped({x.dim(0), 1, width}), 0, width,
                                      500, length, reference::RopePairs::kInterleaved)
                          .reshaped({x.dim(0), width});
    if (wanted == Both) return {latent, key};
    return {wanted == LatentOnly ? latent : key};
  }
};

TEST(MlaLatent, Both) { check_op(MlaLatentCase(2, 37, 9, 6, MlaLatentCase::Both)); }
TEST(MlaLatent, OneToken) { check_op(MlaLatentCase(1, 1, 5, 2, MlaLatentCase::Both)); }
TEST(MlaLatent, LatentAlone) { check_op(MlaLatentCase(3, 5, 7, 4, MlaLatentCase::LatentOnly)); }
TEST(MlaLatent, KeyAlone) { check_op(MlaLatentCase(3, 5, 7, 4, MlaLatentCase::KeyOnly)); }

// A later op reads the latent in its backward, after it was dropped: the same gradient as without.
TEST(MlaLatent, ReleasedAndReadAgain) {
  device::Device device(device_options());
  ParameterStore store;
  Parameter& weight = store.add({.name = "weight", .dims = {7}, .init = Init::constant(1.5)});
  store.allocate(device, DType::Float64);
  store.initialize(1);
  Array values({10, 11});
  for (std::int64_t i = 0; i < values.size(); ++i) values.data[i] = std::sin(double(i * i));
  const auto gradient = [&](bool release) {
    Tape tape(device, {.recording = true, .recompute = {.norm = release}, .observer = nullptr});
    const Var x = tape.leaf(upload(device, values, DType::Float64));
    const Var latent = ops::mla_latent(tape, x, weight, 1e-3, 500, 5).latent;
    const Var y = ops::rms_norm(tape, latent, nullptr, 1e-2);
    tape.release({latent}, Recompute::Norm);
    EXPECT_EQ(latent.value.storage()->dropped(), release);
    tape.adopt_grad(
        y, upload(device, Array({10, 7}, std::vector<double>(values.data.begin(), values.data.begin() + 70)),
                  DType::Float64));
    tape.backward();
    return to_host(device, tape.grad(x), "test");
  };
  EXPECT_EQ(gradient(true), gradient(false));
}

}  // namespace
}  // namespace strata::test
