// What a user reads about a config that is not right: every message in full.
#include <algorithm>

#include "config/sample.h"

namespace strata {
namespace {

const std::string kResidual = R"({"type": "msar", "num_blocks": 3})";

TEST(BadConfig, NotJson) {
  EXPECT_EQ(load_error(""), "c.json: is empty, expected a JSON object");
  EXPECT_EQ(load_error(" \n"), "c.json: is empty, expected a JSON object");
  EXPECT_EQ(load_error("[]"), "c.json: is [], allowed is an object of sections");
  EXPECT_EQ(load_error("3"), "c.json: is 3, allowed is an object of sections");
  EXPECT_EQ(load_error("{"), "c.json:1:1: not valid JSON: unexpected end of input; expected string literal");
  EXPECT_EQ(load_error(R"({"run": {"name": "x",}})"),
            "c.json:1:22: not valid JSON: unexpected '}'; expected string literal");
  EXPECT_EQ(load_error("{\n \"run\": {\n  name: 3}}"),
            "c.json:3:4: not valid JSON: invalid literal; expected string literal");
  EXPECT_EQ(load_error(R"({"run" {}})"), "c.json:1:8: not valid JSON: unexpected '{'; expected ':'");
  EXPECT_EQ(load_error("{} {}"), "c.json:1:4: not valid JSON: unexpected '{'; expected end of input");
  EXPECT_EQ(load_error(R"({"optimizer": {"lr": NaN}})"),
            "c.json:1:22: not valid JSON: NaN and infinity are no numbers");
  EXPECT_EQ(load_error(R"({"optimizer": {"lr": -Infinity}})"),
            "c.json:1:23: not valid JSON: NaN and infinity are no numbers");
  EXPECT_EQ(load_error(R"({"optimizer": {"lr": 1e999}})"), "c.json:1:26: the number '1e999' is too large");
  EXPECT_EQ(load_error("{\"run\": {\"name\": \"\xff\"}}"),
            "c.json:1:19: not valid JSON: invalid string: ill-formed UTF-8 byte");
  EXPECT_EQ(load_error("{\"run\": // c\n {}}"), "c.json:1:9: not valid JSON: invalid literal");
  EXPECT_EQ(load_error(R"({"run": {"seed": 01}})"),
            "c.json:1:19: not valid JSON: unexpected number literal; expected '}'");
  EXPECT_EQ(load_error(std::string(100000, '[')), "c.json: nested deeper than 64 levels");
  EXPECT_EQ(load_error(R"({"run":{"seed":1,"seed":2}})"), "c.json: run.seed is given twice");
  EXPECT_EQ(load_error("{}"), "c.json: model.vocab_size is required: an integer from 1 to 16777216");
  EXPECT_EQ(load_error(R"({"model": null})"), "c.json: model is null, allowed is an object");
  EXPECT_EQ(load_error(R"({"model": []})"), "c.json: model is [], allowed is an object");
  EXPECT_EQ(
      load_error(R"({"modle": {}})"),
      "c.json: modle is an unknown key (with value {}), nearest is model, allowed here are model, router, "
      "profile, model_type, run, data, parallel, backend and 8 more: strata config --reference");
  EXPECT_EQ(load_error("{'run': {}}"),
            "c.json:1:2: not valid JSON: invalid literal; expected string literal");
  EXPECT_EQ(load_error(R"({"run": {"name": tru}})"), "c.json:1:21: not valid JSON: invalid literal");
}

TEST(BadConfig, UnknownKey) {
  EXPECT_EQ(load_error(edited(R"("seed")", R"("lr")")),
            "c.json: run.lr is an unknown key (with value 5), nearest is optimizer.lr, allowed here are "
            "name, output_dir, seed");
  EXPECT_EQ(load_error(edited(R"("seed")", R"("zzzzzz")")),
            "c.json: run.zzzzzz is an unknown key (with value 5), allowed here are name, output_dir, seed");
  EXPECT_EQ(load_error(edited(R"("lr":)", R"("lr ":)")),
            R"(c.json: optimizer."lr " is an unknown key (with value 0.003), nearest is optimizer.lr, )"
            "allowed here are lr, eps, type, beta1, beta2, clip_grad, momentum, weight_decay and 1 more: "
            "strata config --reference");
  EXPECT_EQ(load_error(edited(R"("lr":)", R"("lr": 1, "lr":)")), "c.json: optimizer.lr is given twice");
  EXPECT_EQ(
      load_error(edited(R"("seed")", R"("se\ned\u0001")")),
      R"(c.json: run."se\ned\u0001" is an unknown key (with value 5), nearest is run.seed, allowed here are name, output_dir, seed)");
  EXPECT_EQ(
      load_error(edited(R"("optimizer")", R"("optimiser")")),
      R"(c.json: optimiser is an unknown key (with value {"lr": 0.003}), nearest is optimizer, allowed here are optimizer, router, profile, model, training, precision, parallel, data and 8 more: strata config --reference)");
  EXPECT_EQ(
      load_error(edited(R"("run": {)", R"("wandb": {}, "run": {)")),
      "c.json: wandb is an unknown key (with value {}), allowed here are run, data, model, backend, router, "
      "training, parallel, logging and 8 more: strata config --reference");
}

TEST(BadConfig, LayoutsThatContradictThemselves) {
  const auto error = [](const std::vector<std::string>& settings) { return load_error(kSample, settings); };
  const auto has = [&](const std::vector<std::string>& settings, const std::string& part) {
    EXPECT_NE(error(settings).find(part), std::string::npos) << error(settings);
  };
  const std::string ranks = "parallel.pipeline_model_parallel_size=",
                    each = "parallel.virtual_pipeline_model_parallel_size=",
                    schedule = "parallel.pipeline_schedule=";
  has({each + "2"}, "virtual_pipeline_model_parallel_size 2 needs pipeline_model_parallel_size above 1");
  has({ranks + "2", each + "2", schedule + "zero_bubble"},
      "pipeline_schedule zero_bubble runs one stage on a rank, virtual_pipeline_model_parallel_size is 2: "
      "choose "
      "interleaved or gpipe");
  has({ranks + "2", schedule + "interleaved"},
      "pipeline_schedule interleaved needs several stages on a rank, virtual_pipeline_model_parallel_size is "
      "1: choose "
      "1f1b, zero_bubble or gpipe");
  has({ranks + "1000"}, "cannot fill 1000 stages");
  has({"parallel.expert_model_parallel_size=1000"}, "parallel.expert_model_parallel_size 1000 ");
  has({"backend.threads_ranks=2"}, "comm is threads");
}

TEST(BadConfig, SizesThatAreTooLargeTogether) {
  EXPECT_EQ(load_error(kSample, {"model.hidden_size=16777216", "model.vocab_size=16777216"}),
            "command line: model.hidden_size 16777216: the embedding of one layer would have 2.81475e+14 "
            "weights, more than 1e+12");
  EXPECT_EQ(load_error(kSample, {"model.num_hidden_layers=1048576"}),
            "command line: model.num_hidden_layers is 1048576, allowed is an integer from 1 to 4096");
}

TEST(BadConfig, WrongTypeOrRange) {
  EXPECT_EQ(load_error(edited(R"("hidden_size": 32)", R"("hidden_size": "32")")),
            R"(c.json: model.hidden_size is "32", allowed is an integer from 1 to 16777216)");
  EXPECT_EQ(load_error(edited(R"("hidden_size": 32)", R"("hidden_size": 32.0)")),
            "c.json: model.hidden_size is 32.0, allowed is an integer from 1 to 16777216, written without "
            "fraction or exponent");
  EXPECT_EQ(load_error(edited(R"("hidden_size": 32)", R"("hidden_size": 1e3)")),
            "c.json: model.hidden_size is 1e3, allowed is an integer from 1 to 16777216, written without "
            "fraction or exponent");
  EXPECT_EQ(load_error(edited(R"("hidden_size": 32)", R"("hidden_size": 0)")),
            "c.json: model.hidden_size is 0, allowed is an integer from 1 to 16777216");
  EXPECT_EQ(load_error(edited(R"("hidden_size": 32)", R"("hidden_size": -32)")),
            "c.json: model.hidden_size is -32, allowed is an integer from 1 to 16777216");
  EXPECT_EQ(load_error(edited(R"("hidden_size": 32)", R"("hidden_size": null)")),
            "c.json: model.hidden_size is null, allowed is an integer from 1 to 16777216");
  EXPECT_EQ(load_error(edited(R"("hidden_size": 32)", R"("hidden_size": true)")),
            "c.json: model.hidden_size is true, allowed is an integer from 1 to 16777216");
  EXPECT_EQ(load_error(edited(R"("hidden_size": 32)", R"("hidden_size": 4000000000)")),
            "c.json: model.hidden_size is 4000000000, allowed is an integer from 1 to 16777216");
  EXPECT_EQ(
      load_error(edited(R"("seed": 5)", R"("seed": 99999999999999999999)")),
      "c.json: run.seed is 99999999999999999999, allowed is an integer of at least 0, that fits in 64 bits");
  EXPECT_EQ(load_error(edited(R"("seed": 5)", R"("seed": -1)")),
            "c.json: run.seed is -1, allowed is an integer of at least 0");
  EXPECT_EQ(
      load_error(edited(
          R"("hidden_size": 32)",
          R"("hidden_size": [1, {"a": "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"}])")),
      R"(c.json: model.hidden_size is [1, {"a": "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb..., allowed is an integer from 1 to 16777216)");
  EXPECT_EQ(load_error(edited(R"("name": "sample")", R"("name": 3)")),
            "c.json: run.name is 3, allowed is a string that is not empty");
  EXPECT_EQ(load_error(edited(R"("name": "sample")", R"("name": "")")),
            R"(c.json: run.name is "", allowed is a string that is not empty)");
  EXPECT_EQ(load_error(edited(R"("name": "sample")", R"("name": "a\u0000b")")),
            R"(c.json: run.name is "a\u0000b", allowed is a string that is not empty)");
  EXPECT_EQ(load_error(edited(R"("mla")", R"("mha")")),
            R"(c.json: model.attention is "mha", allowed is "mla" or "gqa")");
  EXPECT_EQ(load_error(edited(R"("mla")", "1")),
            R"(c.json: model.attention is 1, allowed is "mla" or "gqa")");
  EXPECT_EQ(
      load_error(edited(R"("WSD")", R"("wsd")")),
      R"(c.json: lr_schedule.lr_decay_style is "wsd", allowed is "constant", "cosine", "WSD" or "step")");
  EXPECT_EQ(load_error(edited(R"("corpus")", R"(["corpus"])")),
            R"(c.json: data.train[0].path is ["corpus"], allowed is a string that is not empty)");
  EXPECT_EQ(load_error(edited(R"("lr": 0.003)", R"("lr": "0.003")")),
            R"(c.json: optimizer.lr is "0.003", allowed is a number of at least 0)");
  EXPECT_EQ(load_error(edited(R"("lr": 0.003)", R"("lr": -0.1)")),
            "c.json: optimizer.lr is -0.1, allowed is a number of at least 0");
  EXPECT_EQ(load_error(edited(R"("lr": 0.003)", R"("beta1": 1)")),
            "c.json: optimizer.beta1 is 1, allowed is a number of at least 0 and below 1");
  EXPECT_EQ(load_error(edited(R"("lr": 0.003)", R"("eps": 0)")),
            "c.json: optimizer.eps is 0, allowed is a number above 0");
  EXPECT_EQ(load_error(edited(R"("rms_norm_eps": 1e-6)", R"("norm_topk_prob": 1)")),
            "c.json: model.norm_topk_prob is 1, allowed is true or false");
  EXPECT_EQ(load_error(edited(R"("rms_norm_eps": 1e-6)", R"("rms_norm_eps": 0)")),
            "c.json: model.rms_norm_eps is 0, allowed is a number above 0");
  EXPECT_EQ(load_error(edited(R"("rms_norm_eps": 1e-6)", R"("num_nextn_predict_layers": 2)")),
            "c.json: model.num_nextn_predict_layers is 2, allowed is an integer from 0 to 1");
  EXPECT_EQ(load_error(edited(kResidual, R"({"type": "msar", "kernel_sizes": [4, 0, 8]})")),
            "c.json: model.residual.kernel_sizes[1] is 0, allowed is an integer from 1 to 1048576");
  EXPECT_EQ(load_error(edited(kResidual, R"({"type": "msar", "kernel_sizes": [4, "a", 8]})")),
            R"(c.json: model.residual.kernel_sizes[1] is "a", allowed is an integer from 1 to 1048576)");
  EXPECT_EQ(
      load_error(edited(kResidual, R"({"type": "msar", "kernel_sizes": 4})")),
      "c.json: model.residual.kernel_sizes is 4, allowed is a list, each entry an integer from 1 to 1048576");
  EXPECT_EQ(load_error(edited(kResidual, R"({"type": "mhc", "streams": 0})")),
            "c.json: model.residual.streams is 0, allowed is an integer from 1 to 64");
  EXPECT_EQ(load_error(edited(kResidual, R"("mhc")")),
            R"(c.json: model.residual is "mhc", allowed is an object, as in {"type": "mhc"})");
  EXPECT_EQ(load_error(kSample, {"run=first"}), R"(command line: run is "first", allowed is an object)");
  EXPECT_EQ(load_error(edited(R"("train_iters": 100)", R"("train_iters": 0)")),
            "c.json: training.train_iters is 0, allowed is an integer from 1 to 1000000000000000");
}

TEST(BadConfig, LongValueIsCutBetweenCharacters) {
  std::string umlauts;
  for (int i = 0; i < 50; ++i) umlauts += "\u00e4";
  EXPECT_EQ(load_error(edited("300", "\"" + umlauts + "\"")),
            "c.json: model.vocab_size is \"" + umlauts.substr(0, 62) +
                "..., allowed is an integer from 1 to 16777216");
}

TEST(BadConfig, Required) {
  EXPECT_EQ(load_error(edited(R"("hidden_size": 32,)", "")),
            "c.json: model.hidden_size is required: an integer from 1 to 16777216");
  EXPECT_EQ(load_error(edited(R"("num_experts_per_tok": 2,)", "")),
            "c.json: model.num_experts_per_tok is required: an integer from 1 to 16777216");
  EXPECT_EQ(load_error(edited(R"("moe_intermediate_size": 16,)", "")),
            "c.json: model.moe_intermediate_size is required: an integer from 1 to 16777216");
  EXPECT_EQ(load_error(edited(R"("intermediate_size": 64,)", "")),
            "c.json: model.intermediate_size is required: an integer from 1 to 16777216");
}

TEST(BadConfig, KeyThatDoesNothing) {
  EXPECT_EQ(load_error(edited(R"("mla")", R"("gqa")")),
            "c.json: model.kv_lora_rank is 16, but the key is allowed only when attention is mla");
  EXPECT_EQ(load_error(edited(R"("lr": 0.003)", R"("momentum": 0.9)")),
            "c.json: optimizer.momentum is 0.9, but the key is allowed only when type is sgd");
  EXPECT_EQ(load_error(edited(R"("rms_norm_eps": 1e-6)", R"("head_dim": 8)")),
            "c.json: model.head_dim is 8, but the key is allowed only when attention is gqa");
  EXPECT_EQ(load_error(edited(kResidual, R"({"type": "vanilla", "streams": 4})")),
            "c.json: model.residual.streams is 4, but the key is allowed only when type is msar, mhc or "
            "attnres_mhc");
  EXPECT_EQ(
      load_error(edited(kResidual, R"({"type": "vanilla", "key_norm_eps": 1e-6})")),
      "c.json: model.residual.key_norm_eps is 1e-6, but the key is allowed only when type is not vanilla");
  EXPECT_EQ(load_error(edited(kResidual, R"({"type": "mhc", "num_blocks": 4})")),
            "c.json: model.residual.num_blocks is 4, but the key is allowed only when type is attnres, msar "
            "or attnres_mhc");
  EXPECT_EQ(
      load_error(edited(kResidual, R"({"type": "attnres", "readout": "mean"})")),
      R"(c.json: model.residual.readout is "mean", but the key is allowed only when type is mhc or attnres_mhc)");
  EXPECT_EQ(
      load_error(edited(kResidual, R"({"type": "msar", "expansion": "none", "kernel_sizes": [4, 8, 12]})")),
      "c.json: model.residual.kernel_sizes is [4, 8, 12], but the key is allowed only when type is msar and "
      "expansion is causal_conv");
  EXPECT_EQ(load_error(edited(kResidual, R"({"type": "mhc", "fusion": "mean"})")),
            R"(c.json: model.residual.fusion is "mean", but the key is allowed only when type is msar)");
  EXPECT_EQ(load_error(edited(kResidual, R"({"num_blocks": 3})")),
            "c.json: model.residual.num_blocks is 3, but the key is allowed only when type is attnres, msar "
            "or attnres_mhc");
  EXPECT_EQ(
      load_error(edited(R"("lr_decay_style": "WSD", )", "")),
      "c.json: lr_schedule.lr_wsd_decay_iters is 20, but the key is allowed only when lr_decay_style is WSD");
}

TEST(BadConfig, Contradiction) {
  EXPECT_EQ(load_error(edited(R"("name": "sample")", R"("name": "a/b")")),
            R"(c.json: run.name "a/b" has a slash in it: a folder goes into output_dir)");
  EXPECT_EQ(load_error(edited(R"("qk_rope_head_dim": 4)", R"("qk_rope_head_dim": 5)")),
            "c.json: model.qk_rope_head_dim 5 is odd, but rotation works on pairs");
  EXPECT_EQ(load_error(edited(R"("num_experts_per_tok": 2)", R"("num_experts_per_tok": 9)")),
            "c.json: model.num_experts_per_tok 9 is above n_routed_experts 8");
  EXPECT_EQ(load_error(edited(R"("first_k_dense_replace": 1)", R"("first_k_dense_replace": 5)")),
            "c.json: model.first_k_dense_replace 5 is above num_hidden_layers 4");
  EXPECT_EQ(load_error(edited(R"("n_routed_experts": 8)", R"("n_routed_experts": 8, "n_group": 3)")),
            "c.json: model.n_group 3 does not divide n_routed_experts 8");
  EXPECT_EQ(load_error(edited(R"("n_routed_experts": 8)",
                              R"("n_routed_experts": 8, "n_group": 4, "topk_group": 5)")),
            "c.json: model.topk_group 5 is above n_group 4");
  EXPECT_EQ(load_error(edited(R"("num_experts_per_tok": 2)", R"("num_experts_per_tok": 3, "n_group": 4)")),
            "c.json: model.num_experts_per_tok 3 is above the 2 experts of topk_group 1 groups");
  EXPECT_EQ(load_error(edited(R"("n_routed_experts": 8)",
                              R"("n_routed_experts": 8, "n_group": 8, "topk_group": 4)")),
            "c.json: model.n_group 8 leaves one expert a group, but with scoring_func sigmoid a group's "
            "value is the sum of its two best");
  EXPECT_EQ(load_error(edited(R"("n_routed_experts": 8)", R"("num_nextn_predict_layers": 1)")),
            "c.json: model.num_nextn_predict_layers 1 needs n_routed_experts: its block is always MoE");
  EXPECT_EQ(load_error(edited(R"("n_routed_experts": 8)",
                              R"("n_routed_experts": 0, "num_nextn_predict_layers": 1)")),
            "c.json: model.num_nextn_predict_layers 1 needs n_routed_experts: its block is always MoE");
  EXPECT_EQ(load_error(edited(kResidual, R"({"type": "msar", "kernel_sizes": [4, 8]})")),
            "c.json: model.residual.kernel_sizes has 2 entries, but streams 4 needs 3: one for each view but "
            "the first");
  EXPECT_EQ(
      load_error(edited(kResidual, R"({"type": "msar", "streams": 5})")),
      "c.json: model.residual.kernel_sizes is required with streams 5: only 1, 2, 3, 4 and 8 have defaults");
  EXPECT_EQ(load_error(edited(R"("global_batch_size": 8)", R"("global_batch_size": 7)")),
            "c.json: training.global_batch_size 7 is not a multiple of micro_batch_size 2");
  EXPECT_EQ(
      load_error(edited(R"("train_iters": 100)", R"("train_iters": 100, "train_tokens": 5)")),
      "c.json: training.train_iters 100 and train_tokens 5 both give the length of the run: remove one");
  EXPECT_EQ(load_error(edited(R"("lr_warmup_iters": 10, "lr_wsd_decay_iters": 20)", R"("min_lr": 0.1)")),
            "c.json: lr_schedule.min_lr 0.1 is above optimizer.lr 0.003");
}

TEST(BadConfig, CommandLine) {
  EXPECT_EQ(load_error(kSample, {R"(lr_schedule={"lr_decay_style": "step", "lr_step_iters": [10, 10]})"}),
            "command line: lr_schedule.lr_step_iters has 10 after 10: steps must increase");
  EXPECT_EQ(
      load_error(kSample, {R"(lr_schedule={"lr_decay_style": "step", "lr_step_iters": []})"}),
      "command line: lr_schedule.lr_step_iters is empty: name a step, or choose lr_decay_style constant");
  EXPECT_EQ(
      load_error(kSample, {R"(recompute.modules=["moe_act"])"}),
      R"(command line: recompute.modules is ["moe_act"], but the key is allowed only when granularity is selective)");
  EXPECT_EQ(
      load_error(kSample, {"recompute.granularity=selective", R"(recompute.modules=["moe_act","moe_act"])"}),
      R"(command line: recompute.modules names "moe_act" twice)");
  EXPECT_EQ(load_error(kSample, {"recompute.granularity=selective", "recompute.modules=[]"}),
            "command line: recompute.modules is empty: name a module, or choose granularity none");
  EXPECT_EQ(
      load_error(kSample, {"recompute.granularity=selective", R"(recompute.modules=["moe"])"}),
      R"(command line: recompute.modules[0] is "moe", allowed is "layernorm", "moe_act", "core_attn" or "depth_retrieval")");
  EXPECT_EQ(
      load_error(kSample, {"recompute.granularity=selective", "recompute.modules=moe_act"}),
      R"(command line: recompute.modules is "moe_act", allowed is a list, each entry "layernorm", "moe_act", "core_attn" or "depth_retrieval")");
  EXPECT_EQ(load_error(kSample, {"router.bias_update_speed=0.001", "model.scoring_func=softmax"}),
            "command line: router.bias_update_speed 0.001 needs model.scoring_func sigmoid: softmax scores "
            "have no bias");
  EXPECT_EQ(load_error(kSample, {"router.bias_update_speed=0.001", "model.first_k_dense_replace=4"}),
            "command line: router.bias_update_speed 0.001 needs a MoE layer in the model");
  EXPECT_EQ(load_error(kSample, {"optimizer.lr=fast"}),
            R"(command line: optimizer.lr is "fast", allowed is a number of at least 0)");
  EXPECT_EQ(load_error(kSample, {"optimizer.lr=NaN"}),
            R"(command line: optimizer.lr is "NaN", allowed is a number of at least 0)");
  EXPECT_EQ(load_error(kSample, {"optimizer.lr=1e999"}),
            R"(command line: optimizer.lr is "1e999", allowed is a number of at least 0)");
  EXPECT_EQ(load_error(kSample, {"optimizer.lr"}),
            R"(command line: --set "optimizer.lr" is not of the form section.key=value)");
  EXPECT_EQ(load_error(kSample, {"=3"}), R"(command line: --set "=3" is not of the form section.key=value)");
  EXPECT_EQ(load_error(kSample, {".lr=3"}),
            R"(command line: --set ".lr=3" is not of the form section.key=value)");
  EXPECT_EQ(load_error(kSample, {"a..b=3"}),
            R"(command line: --set "a..b=3" is not of the form section.key=value)");
  EXPECT_EQ(
      load_error(kSample, {"model.hidden_size.x=3"}),
      "command line: model.hidden_size.x cannot be set, because model.hidden_size is 32 and not an object");
  EXPECT_EQ(
      load_error(kSample, {"modle.hidden_size=3"}),
      R"(command line: modle is an unknown key (with value {"hidden_size": 3}), nearest is model, allowed here are model, router, profile, model_type, run, data, parallel, backend and 8 more: strata config --reference)");
  EXPECT_EQ(load_error(kSample, {"model.hidden_size=null"}),
            "c.json: model.hidden_size is required: an integer from 1 to 16777216");
  EXPECT_EQ(load_error(kSample, {R"(model={"a":1,})"}),
            "command line: value of model:1:8: not valid JSON: unexpected '}'; expected string literal");
  EXPECT_EQ(load_error(kSample, {"model.num_experts_per_tok=9"}),
            "command line: model.num_experts_per_tok 9 is above n_routed_experts 8");
  EXPECT_EQ(load_error(kSample, {"model=3"}), "command line: model is 3, allowed is an object");
  EXPECT_EQ(load_error(kSample, {"data.train="}),
            R"(command line: data.train is "", allowed is a list of objects)");
  EXPECT_EQ(load_error(kSample, {"model.residual.kernel_sizes=[4,8"}),
            "command line: value of model.residual.kernel_sizes:1:4: not valid JSON: unexpected end of "
            "input; expected ']'");
  EXPECT_EQ(load_error(kSample, {"model.attention=gqa"}),
            "c.json: model.kv_lora_rank is 16, but the key is allowed only when attention is mla");
  EXPECT_EQ(load_error(kSample, {"backend.device=cuda"}),
            R"(command line: backend.device is "cuda", allowed is "auto" or "cpu")");
  EXPECT_EQ(load_error(kSample, {"precision.compute=fp8"}),
            R"(command line: precision.compute is "fp8", allowed is "float32", "float64" or "bfloat16")");
  EXPECT_EQ(load_error(kSample, {"backend.threads=-1"}),
            "command line: backend.threads is -1, allowed is an integer from 0 to 4096");
  EXPECT_EQ(load_error(kSample, {"logging.jsonl="}),
            R"(command line: logging.jsonl is "", allowed is a string that is not empty)");
  for (const char* folder : {"..", "../events", "a/../../events"})
    EXPECT_EQ(load_error(kSample, {std::string("logging.tensorboard_dir=") + folder}),
              std::string("command line: logging.tensorboard_dir \"") + folder +
                  "\" is no folder inside the run's, such as events, nor an absolute path");
  EXPECT_EQ(load_error(kSample, {"profile.steps=[3]"}),
            "command line: profile.steps has 1 entry: the first and the last step, such as [10, 12]");
  EXPECT_EQ(load_error(kSample, {"profile.steps=[1, 2, 3]"}),
            "command line: profile.steps has 3 entries: the first and the last step, such as [10, 12]");
  EXPECT_EQ(load_error(kSample, {"profile.steps=[12, 10]"}),
            "command line: profile.steps ends with 10, before its first step 12");
  EXPECT_EQ(load_error(kSample, {"profile.steps=[0, 1]"}),
            "command line: profile.steps[0] is 0, allowed is an integer from 1 to 1000000000000000");
  EXPECT_EQ(load_error(kSample, {"profile.ranks=[0]"}),
            "command line: profile.ranks is [0], but the key is allowed only when steps is set");
  EXPECT_EQ(load_error(kSample, {"profile.steps=[1, 2]", "profile.ranks=[]"}),
            "command line: profile.ranks is empty: name a rank, or leave the key out for all");
  EXPECT_EQ(load_error(kSample, {"profile.steps=[1, 2]", "profile.ranks=[1, 0, 1]"}),
            "command line: profile.ranks names 1 twice");
  EXPECT_EQ(load_error(kSample, {"profile.steps=[1, 2]", "profile.ranks=[-1]"}),
            "command line: profile.ranks[0] is -1, allowed is an integer from 0 to 1000000");
  EXPECT_EQ(load_error(kSample, {"logging.peak_flops=999999"}),
            "command line: logging.peak_flops is 999999, allowed is 0 or a number of at least 1e6");
}

// The model's list of keys is long: those that are near stand for it.
TEST(BadConfig, UnknownModelKey) {
  const std::string start =
      "model.hiden_size is an unknown key (with value 32), nearest is model.hidden_size, allowed here are "
      "hidden_size, ";
  EXPECT_EQ(load_error(edited("\"hidden_size\"", "\"hiden_size\"")).substr(0, 8 + start.size()),
            "c.json: " + start);
  EXPECT_EQ(load_error(kSample, {"model.hiden_size=32"}).substr(0, 14 + start.size()),
            "command line: " + start);
  const std::string named = load_error(kSample, {"model.hiden_size=32"});
  EXPECT_EQ(std::count(named.begin(), named.end(), ','), 9) << "the nearest, and eight of the list";
  EXPECT_TRUE(named.ends_with(" more: strata config --reference")) << named;
  EXPECT_NE(load_error(kSample, {"model.foo=null"}).find("model.foo is an unknown key"), std::string::npos);
}

}  // namespace
}  // namespace strata
