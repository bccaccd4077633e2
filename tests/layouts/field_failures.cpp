// Silent errors that users of other trainers report, looked for on our ranks; docs/field_failures.md names
// the reports. What several ranks compute is compared with one rank that does everything at once.
#include <set>

#include "base/philox.h"
#include "data/files.h"
#include "optim/pieces.h"
#include "together.h"
#include "train/layout.h"
#include "train/run.h"
#include "train/step_metrics.h"
#include "train/throughput.h"

namespace strata::test {
namespace {

// ---- what losses are divided by ----

TEST(FieldFailures, TokensCountAlikeOnAnyRank) {
  const RunConfig config = small_run();
  const HostBatch batch = masked_batch(config, {5, 1, 0, 2});
  ASSERT_EQ(model::count(batch).labels, 8);
  ASSERT_EQ(model::count(batch).next_labels, 4 + 0 + 0 + 1);
  const Together whole = at_once(config, batch);
  EXPECT_GT(whole.results[0].mtp_loss, 1);
  for (const Layout& at : {Layout{},
                           Layout{.data = 2},
                           {.data = 4},
                           {.expert = 2, .data = 2},
                           {.pipeline = 2, .data = 2},
                           {.pipeline = 2, .per_rank = 2}})
    expect_equal(gradients(config, at, batch), whole, at.text());
}

// Without labels all gradients are those of one of the two balance losses.
TEST(FieldFailures, BalanceLossesPullAsOneRankDoes) {
  for (const auto& [balance, z] : {std::pair{0.5, 0.0}, {0.0, 0.05}}) {
    RunConfig config = small_run();
    config.model.seq_aux_loss_coef = balance, config.model.router_z_loss_coef = z;
    const HostBatch batch = masked_batch(config, std::vector<int>(8, 0));
    const Together whole = at_once(config, batch);
    EXPECT_EQ(whole.results[0].lm_loss, 0);
    EXPECT_GT(norm(whole.grads, ".gate.weight"), 1e-3);
    for (const Layout& at : {Layout{.data = 8},
                             Layout{.expert = 8, .data = 8},
                             {.pipeline = 2, .expert = 2, .data = 4},
                             {.pipeline = 4, .expert = 2, .data = 2},
                             {.pipeline = 3},
                             {.pipeline = 2, .per_rank = 2}})
      expect_equal(gradients(config, at, batch), whole, at.text());
  }
}

TEST(FieldFailures, MoreRanksWithTheSameDataBalanceNoMore) {
  const RunConfig config = small_run();
  const HostBatch one = full_batch(config, 1);
  const Together alone = at_once(config, one);
  for (const Layout& at : {Layout{.data = 2}, Layout{.data = 4}, {.expert = 4, .data = 4}}) {
    HostBatch copies = one;
    for (copies.rows = 1; copies.rows < at.data; ++copies.rows) {
      copies.input_ids.insert(copies.input_ids.end(), one.input_ids.begin(), one.input_ids.end());
      copies.labels.insert(copies.labels.end(), one.labels.begin(), one.labels.end());
    }
    const Together all = gradients(config, at, copies);
    SCOPED_TRACE(at.text());
    for (const StepResult& r : all.results) expect_same_step(r, alone.results[0]);
    EXPECT_LE(worst_difference(all.grads, alone.grads), 1e-11);
  }
}

// ---- gradients of experts, micro-batches, clipping ----

TEST(FieldFailures, ExpertGradientsDoNotGrowWithTheRanksThatShareThem) {
  RunConfig config = small_run();
  config.model.n_routed_experts = 4;
  const HostBatch batch = full_batch(config, 8);
  const Together whole = at_once(config, batch);
  EXPECT_GT(norm(whole.grads, ".mlp.experts."), 0.1 * norm(whole.grads, ""));
  for (const bool distributed : {true, false})
    for (const int expert : {1, 2, 4}) {
      config.optimizer.use_distributed_optimizer = distributed;
      const Layout at{.expert = expert, .data = 4};
      expect_equal(gradients(config, at, batch), whole, concat(at.text(), " distributed ", distributed));
    }
}

// No other rank has the same experts: their gradients are complete without a sum.
TEST(FieldFailures, ExpertsOfOneRankAddUpTheirMicroBatches) {
  const RunConfig config = small_run();
  const HostBatch batch = full_batch(config, 16);
  const Together whole = at_once(config, batch);
  for (const Layout& at : {Layout{.expert = 2, .data = 2}, Layout{.expert = 4, .data = 4}})
    for (const int rows : {1, 16 / at.data})  // many micro-batches, one
      expect_equal(gradients(with_rows(config, rows), at, batch), whole, concat(at.text(), ", ", rows));
}

TEST(FieldFailures, GradientsOfFourMicroBatchesAreTheMeanOfFour) {
  const RunConfig config = small_run();
  const HostBatch batch = full_batch(config, 4);
  Values mean;
  for (int row = 0; row < 4; ++row)
    for (const auto& [name, g] : gradients(config, {.pipeline = 2}, batch.slice(row, row + 1)).grads) {
      mean[name].resize(g.size());
      for (std::size_t i = 0; i < g.size(); ++i) mean[name][i] += g[i] / 4;
    }
  for (const Layout& at : {Layout{.pipeline = 2},
                           Layout{.pipeline = 2, .schedule = ScheduleKind::ZeroBubble},
                           {.pipeline = 2, .per_rank = 2}})
    EXPECT_LE(worst_difference(gradients(config, at, batch).grads, mean), 1e-11) << at.text();
}

// The factor by which each rank's gradients went into its weights.
TEST(FieldFailures, DenseAndExpertWeightsAreClippedByOneFactorOnAllRanks) {
  RunConfig config = small_run();
  const HostBatch batch = full_batch(config, 4);
  const double whole = at_once(config, batch).results[0].grad_norm;
  config.optimizer = {
      .type = optim::OptimizerType::Sgd, .lr = 0.5, .weight_decay = 0, .clip_grad = whole / 3};
  for (const Layout& at : {Layout{.expert = 2, .data = 4}, Layout{.pipeline = 2, .expert = 2, .data = 2}}) {
    Together all(at.ranks());
    Values factors;  // by rank
    on_ranks(config, at, [&](Rank& rank) {
      move_weights(rank.trainer.store(), {});
      const StepResult r = rank.gradients(batch);
      const Values grads = rank.grads(), before = rank.weights();
      rank.trainer.update(r);
      const Values after = rank.weights();
      std::vector<double> mine{optim::clip_scale(r.grad_norm, config.optimizer.clip_grad)};
      for (const auto& [name, g] : grads)
        for (std::size_t i = 0; i < g.size(); ++i)
          if (std::abs(g[i]) > 1e-3) mine.push_back((before.at(name)[i] - after.at(name)[i]) / (0.5 * g[i]));
      all.results[std::size_t(rank.mesh.world().rank())] = r;
      all.add(all.grads, grads);
      all.add(factors, {{concat(rank.mesh.world().rank()), mine}});
    });
    EXPECT_NEAR(norm(all.grads, ""), whole, 1e-11 * whole) << "every gradient once";
    ASSERT_EQ(factors.size(), std::size_t(at.ranks()));
    for (const auto& [rank, f] : factors) {
      EXPECT_EQ(f[0], factors.begin()->second[0]) << "rank " << rank;
      EXPECT_GT(f.size(), 1000u);
      for (const double x : f) ASSERT_NEAR(x, 1.0 / 3, 1e-6) << "rank " << rank << ", " << at.text();
    }
  }
}

TEST(FieldFailures, MomentsOfExpertsAreDividedToo) {
  Values held;  // of each moment, how much all ranks together have
  std::mutex mutex;
  on_ranks(small_run(), {.expert = 4, .data = 8}, [&](Rank& rank) {
    const std::lock_guard lock(mutex);
    for (const optim::Piece& p : rank.trainer.optimizer().held()) {
      held[p.name].resize(1);
      held[p.name][0] += double(p.count) / double(p.dims.numel());
    }
  });
  EXPECT_TRUE(held.contains("exp_avg.model.layers.3.mlp.experts.7.up_proj.weight"));
  for (const auto& [name, share] : held) EXPECT_NEAR(share[0], 1, 1e-12) << name;
}

// ---- routers and experts ----

// Layers 0 and 1 are dense: the first of two ranks routes nothing.
TEST(FieldFailures, AStageWithoutExpertsTakesPartInBalancing) {
  RunConfig config = small_run();
  config.model.first_k_dense_replace = 2;
  const auto train = [&](const Layout& at) {
    Together all(at.ranks());
    on_ranks(with_rows(config, 2), at, [&](Rank& rank) {
      EXPECT_EQ(rank.trainer.moes().empty(), at.pipeline == 2 && rank.mesh.pipeline_rank() == 0);
      move_weights(rank.trainer.store(), {});
      for (std::uint64_t step = 1; step <= 3; ++step) {
        const StepResult r = rank.trainer.gradients(small_batch(config.model, 8, kLength, step));
        train::Metrics metrics;
        train::append_expert_metrics(metrics, rank.trainer, rank.config);
        Values seen{{"norm", {r.grad_norm}}};
        for (const auto& [name, value] : metrics) seen[name] = {value};
        for (const auto& [name, v] : seen) all.add(all.loads, {{concat(name, " in step ", step), v}});
        rank.trainer.update(r);
      }
      all.add(all.weights, rank.weights());
    });
    return all;
  };
  const Together whole = train({});
  EXPECT_TRUE(whole.loads.contains("expert load entropy layer 4 in step 3"));
  for (const Layout& at : {Layout{.pipeline = 2}, Layout{.pipeline = 2, .expert = 2, .data = 2}}) {
    const Together got = train(at);
    EXPECT_LE(worst_difference(got.weights, whole.weights), 1e-9) << at.text();
    for (const auto& [name, v] : whole.loads) EXPECT_NEAR(got.loads.at(name)[0], v[0], 1e-9) << name;
  }
}

TEST(FieldFailures, EveryLayersLoadsCountFromZeroInEachStep) {
  for (const auto scoring : {model::ScoringFunc::Sigmoid, model::ScoringFunc::Softmax})
    for (const Layout& at : {Layout{},
                             Layout{.pipeline = 2, .per_rank = 2},
                             {.pipeline = 4},
                             {.pipeline = 2, .expert = 2, .data = 2}}) {
      RunConfig config = small_run();
      config.model.scoring_func = scoring;
      Together all(at.ranks());
      on_ranks(config, at, [&](Rank& rank) {
        for (std::uint64_t step = 1; step <= 3; ++step) {
          const StepResult r = rank.gradients(small_batch(config.model, 4, kLength, step));
          for (const auto& [layer, load] : rank.loads()) {
            double sum = 0;
            for (const double n : load) sum += n;
            EXPECT_EQ(sum, double(4 * kLength * config.model.num_experts_per_tok)) << layer << ", " << step;
            EXPECT_NE(load, std::vector<double>(8, sum / 8)) << "too even to move a bias";
          }
          step == 2 ? rank.trainer.skip() : rank.trainer.update(r);
          for (const auto& [layer, load] : rank.loads()) EXPECT_EQ(load, std::vector<double>(8, 0)) << layer;
        }
        all.add(all.loads, rank.loads());
        for (const auto& [name, w] : rank.weights())
          if (name.ends_with("e_score_correction_bias")) all.add(all.weights, {{name, w}});
      });
      EXPECT_EQ(all.loads.size(), 4u) << "three layers and multi-token prediction's, " << at.text();
      EXPECT_EQ(all.weights.size(), scoring == model::ScoringFunc::Sigmoid ? 4u : 0u);
      for (const auto& [name, bias] : all.weights) EXPECT_NE(bias, std::vector<double>(8, 0)) << name;
    }
}

// Memory starts as NaN here: what nobody writes shows.
TEST(FieldFailures, ExpertsWithoutTokensHaveGradientsOfZeroOnEveryRank) {
  RunConfig config = small_run();
  config.model.n_routed_experts = 256, config.model.num_hidden_layers = 2;
  config.model.num_nextn_predict_layers = 0;
  const HostBatch batch = small_batch(config.model, 2, 4);
  ASSERT_TRUE(open_device_options().fill_nan);
  const Together whole = at_once(config, batch);
  for (const Layout& at : {Layout{.expert = 4, .data = 4}, Layout{.pipeline = 2, .expert = 2, .data = 2}}) {
    const Together got = gradients(config, at, batch);
    expect_equal(got, whole, at.text());
    const std::vector<double>& load = got.loads.at("layer 1");
    for (std::size_t e = 0; e < load.size(); ++e) {
      const auto& g = got.grads.at(concat("model.layers.1.mlp.experts.", e, ".down_proj.weight"));
      EXPECT_EQ(std::all_of(g.begin(), g.end(), [](double x) { return x == 0; }), load[e] == 0) << e;
    }
  }
}

// The biases send every token to two experts, which one of four ranks has.
TEST(FieldFailures, MemoryHasABoundWhenAllTokensGoToOneRank) {
  RunConfig config = small_run();
  const auto peaks = [&](const Layout& at, std::int64_t rows, int steps) {
    std::vector<double> peak(std::size_t(at.ranks()));
    on_ranks(with_rows(config, rows), at, [&](Rank& rank) {
      for (const auto& [name, found] : rank.trainer.store().by_name())
        if (found.buffer) rank.trainer.store().set(name, {9, 9, 0, 0, 0, 0, 0, 0});
      for (int step = 0; step < steps; ++step) {
        rank.gradients(full_batch(config, 8));
        EXPECT_EQ(rank.loads().begin()->second[1], 8 * kLength);
        rank.trainer.skip();
      }
      peak[std::size_t(rank.mesh.world().rank())] =
          double(rank.device.memory().use(device::Purpose::Activations).peak);
    });
    return peak;
  };
  const Layout four{.expert = 4, .data = 4};
  const double bound = peaks({}, 8, 1)[0];  // of one rank that has all sequences as well
  const std::vector<double> once = peaks(four, 2, 1), often = peaks(four, 2, 5);
  EXPECT_GT(once[0], 1.5 * once[1]);
  EXPECT_LT(once[0], bound);
  EXPECT_EQ(often, once) << "grows from step to step";
}

// ---- pipelines ----

TEST(FieldFailures, InitialWeightsOfALayerAreTheSameInEveryLayout) {
  const auto initial = [](const Layout& at) {
    Together all(at.ranks());
    on_ranks(small_run(), at, [&](Rank& rank) { all.add(all.weights, rank.weights()); });
    return all.weights;
  };
  const Values whole = initial({});
  std::set<std::vector<double>> layers;
  for (int layer = 0; layer < 4; ++layer)
    layers.insert(whole.at(concat("model.layers.", layer, ".self_attn.o_proj.weight")));
  EXPECT_EQ(layers.size(), 4u);
  for (const Layout& at : {Layout{.pipeline = 2},
                           Layout{.pipeline = 3},
                           {.pipeline = 4},
                           {.pipeline = 2, .per_rank = 2},
                           {.pipeline = 2, .expert = 2, .data = 4}})
    EXPECT_TRUE(initial(at) == whole) << at.text();
}

// Weight gradients that wait are there before their sum over ranks begins; untied, in the same order.
TEST(FieldFailures, LateWeightGradientsAreInTheSums) {
  for (const bool tied : {false, true})
    for (const Layout& at : {Layout{.pipeline = 2, .data = 2}, Layout{.pipeline = 4, .data = 2}}) {
      RunConfig config = small_run();
      config.model.tie_word_embeddings = tied;
      config.parallel.ddp_bucket_size = 1;  // a sum for each layer, as early as can be
      const HostBatch batch = full_batch(config, 8);
      Layout late = at;
      late.schedule = ScheduleKind::ZeroBubble;
      const Together plain = gradients(config, at, batch), split = gradients(config, late, batch);
      EXPECT_TRUE(tied || split.grads == plain.grads) << late.text();
      const Together whole = at_once(config, batch);
      for (const Together* got : {&plain, &split}) expect_equal(*got, whole, at.text());
    }
}

TEST(FieldFailures, FlopsAndTheirShareOfThePeakDoNotDependOnTheLayout) {
  RunConfig config = small_run();
  config.logging.peak_flops = 1e9;
  const train::Throughput one(config);
  EXPECT_GT(one.flops(1), 6 * 1000);
  for (const Layout& at : {Layout{.pipeline = 2},
                           Layout{.pipeline = 4},
                           {.pipeline = 2, .per_rank = 2},
                           {.data = 4},
                           {.pipeline = 2, .expert = 4, .data = 4}}) {
    const train::Throughput several(on(config, at), at.ranks());
    EXPECT_EQ(several.flops(1000), one.flops(1000)) << at.text();
    EXPECT_DOUBLE_EQ(*several.share(1000) * at.ranks(), *one.share(1000)) << at.text();
  }
}

// ---- data ----

// The last micro-batch has no partner on two of three ranks.
TEST(FieldFailures, TenSamplesInPairsAreSeenOnceByAnyNumberOfRanks) {
  const RunConfig config = with_rows(small_run(), 2);
  const HostBatch batch = small_batch(config.model, 10, kLength);
  const Together whole = at_once(config, batch);
  std::multiset<std::vector<std::int64_t>> wanted;
  for (std::int64_t r = 0; r < 10; ++r) wanted.insert(batch.slice(r, r + 1).input_ids);
  for (const int data : {2, 3, 4, 8}) {
    std::multiset<std::vector<std::int64_t>> seen;
    std::set<std::size_t> counts;
    std::mutex mutex;
    on_ranks(config, {.data = data}, [&](Rank& rank) {
      const std::vector<HostBatch> mine = rank.trainer.micro_batches(batch);
      const std::lock_guard lock(mutex);
      counts.insert(mine.size());
      for (const HostBatch& b : mine)
        for (std::int64_t r = 0; r < b.rows; ++r) seen.insert(b.slice(r, r + 1).input_ids);
    });
    EXPECT_EQ(seen, wanted) << data;
    EXPECT_EQ(counts.size(), 1u) << "ranks with more micro-batches than others: " << data;
    expect_equal(gradients(config, {.data = data}, batch), whole, concat(data, " ranks"));
  }
}

// The numbers of this name in a run's metrics, step by step.
std::vector<double> numbers(const std::string& metrics, const std::string& name) {
  std::vector<double> all;
  const std::string key = "\"" + name + "\":";
  for (std::size_t at = metrics.find(key); at != std::string::npos; at = metrics.find(key, at + 1))
    all.push_back(std::stod(metrics.substr(at + key.size())));
  return all;
}

void expect_near(const std::string& metrics, const std::string& wanted, const std::string& name) {
  const std::vector<double> a = numbers(metrics, name), b = numbers(wanted, name);
  ASSERT_EQ(a.size(), b.size());
  ASSERT_FALSE(b.empty()) << name;
  for (std::size_t i = 0; i < b.size(); ++i) EXPECT_NEAR(a[i], b[i], 1e-9 * b[i]) << name << ", " << i;
}

// Thirty samples; the layout changes after 12 and 24 of them, and the second epoch begins on the third.
TEST(FieldFailures, OtherRanksGoOnWithTheNextSamples) {
  const Folder folder;
  std::vector<std::uint16_t> tokens;
  for (std::uint64_t i = 0; i <= 30 * kLength; ++i) tokens.push_back(std::uint16_t(Philox(4).bits(i) % 37));
  RunConfig config = small_run();
  config.data.train = {{write_documents(folder, "tokens", {tokens})}};
  config.training.global_batch_size = 4;
  config.optimizer.eps = 1e-6;
  config.checkpoint.async_save = false;
  config.logging.peak_flops = 1e9, config.logging.metrics_interval = 0;
  const auto run = [&](const std::string& name, std::int64_t steps, const Layout& at) {
    config.run.output_dir = folder / name;
    config.training.train_iters = steps;
    comm::run_threads(at.ranks(), [&](comm::World& world) {
      const RunConfig c = on(config, at);
      train::run(c, {}, {.allow_changes = true}, comm::Mesh(world, train::mesh_shape(c, world.size())));
    });
    const std::string metrics = read_file(config.run.folder() + "/metrics.jsonl");
    const double rate = numbers(metrics, "tokens per second").back();
    const double flops = numbers(metrics, "throughput (TFLOP/s)").back();
    EXPECT_NEAR(flops * 1e12 / rate, train::Throughput(config).flops(1), 1e-3) << at.text();
    EXPECT_NEAR(numbers(metrics, "share of peak").back() * 1e9 * at.ranks(), flops * 1e12, 1e-3 * rate);
    return metrics;
  };
  run("moved", 3, {.data = 2});
  run("moved", 6, {.data = 4});
  const std::string moved = run("moved", 9, {.pipeline = 2, .expert = 2, .data = 2}),
                    whole = run("whole", 9, {});
  EXPECT_EQ(numbers(whole, "consumed samples").back(), 36);
  for (const char* name :
       {"lm loss", "load_balancing_loss", "mtp loss", "grad norm", "consumed samples", "tokens"})
    expect_near(moved, whole, name);
}

}  // namespace
}  // namespace strata::test
