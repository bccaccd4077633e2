#include "tools/options.h"

#include <CLI/CLI.hpp>
#include <charconv>
#include <cmath>

#include "train/faults.h"

namespace strata::tools {
namespace {

CLI::Option* add_overrides(CLI::App* command, ConfigArguments& config) {
  return command
      ->add_option("--set", config.overrides,
                   "override a key of the configuration, as in --set optimizer.lr=3e-4; repeatable")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
}

void add_configuration(CLI::App* command, ConfigArguments& config) {
  command->add_option("CONFIG", config.file, "configuration file (JSON)")->required()->type_name("");
  add_overrides(command, config);
}

template <class T>
CLI::Option* add_count(CLI::App* command, const std::string& name, T& value, std::int64_t least,
                       std::int64_t most, const std::string& help) {
  return command->add_option(name, value, help)->check(CLI::Range(least, most))->type_name("N");
}

CLI::Option* add_switch(CLI::App* command, const std::string& name, bool& value, const std::string& help) {
  return command->add_flag(name, value, help)->disable_flag_override();
}

void add_train(CLI::App& app, TrainArguments& a) {
  CLI::App* c = app.add_subcommand("train", "train a model");
  add_configuration(c, a.config);
  add_switch(c, "--overwrite", a.overwrite,
             "start anew: remove what an earlier run left in the run's folder, checkpoints too");
  add_switch(c, "--override", a.override_changes,
             "go on from the newest checkpoint although hyper-parameters or data have changed");
  c->add_option("--inject", a.inject, "faults to survive, for tests; repeatable: " + train::fault_reference())
      ->type_name("FAULT")
      ->allow_extra_args(false);
  add_switch(c, "--verbose", a.verbose, "debug messages too");
}

// "" or why the text is not one.
std::string tolerance_fault(const std::string& text) {
  double r = NAN;
  return CLI::detail::lexical_cast(text, r) && r >= 0 && std::isfinite(r) ? std::string()
                                                                          : text + " is not a number from 0";
}

void add_trace(CLI::App& app, TraceArguments& a) {
  CLI::App* c = app.add_subcommand(
      "trace", "one batch through the model, everything visible: losses, logits, gradients, trained weights");
  c->add_option("--config", a.config.file, "configuration file (JSON)")->required()->type_name("FILE");
  c->add_option("--weights", a.weights, "weights of the model (safetensors)")->required()->type_name("FILE");
  c->add_option("--batch", a.batch, "input_ids, labels, optional doc_ids: I64 [B, T] (safetensors)")
      ->required()
      ->type_name("FILE");
  add_overrides(c, a.config);
  c->add_option("--out", a.out, "file to write (safetensors); required without --compare")->type_name("FILE");
  add_count(c, "--steps", a.steps, 0, 1000000, "optimizer steps on the same batch");
  CLI::Option* compare =
      c->add_option("--compare", a.compare,
                    "reference to compare with (safetensors); exit status 1 beyond tolerance")
          ->type_name("FILE");
  c->add_option("--tolerance", a.tolerance, "one tolerance for all tensors, instead of one for each kind")
      ->check(tolerance_fault, "")
      ->needs(compare);
  c->final_callback([&a] {
    if (a.out.empty() && a.compare.empty()) throw CLI::ValidationError("--out or --compare is required");
  });
}

void add_config(CLI::App& app, ConfigCommandArguments& a) {
  CLI::App* c =
      app.add_subcommand("config", "print a configuration with who gave each value, or list all keys");
  CLI::Option* file = c->add_option("CONFIG", a.config.file, "configuration file (JSON)")->type_name("");
  add_overrides(c, a.config);
  CLI::Option* json = add_switch(c, "--json", a.json, "print JSON that loads back");
  add_switch(c, "--reference", a.reference, "list every key with type, default and meaning")
      ->excludes(file)
      ->excludes("--set")
      ->excludes(json);
  c->final_callback([&a] {
    if (a.config.file.empty() && !a.reference)
      throw CLI::ValidationError("CONFIG or --reference is required");
  });
}

void add_verify_layout(CLI::App& app, VerifyLayoutArguments& a) {
  CLI::App* c = app.add_subcommand(
      "verify-layout",
      "train some steps on one rank and on several, and compare; exit status 1 if they differ");
  add_configuration(c, a.config);
  c->add_option("--layouts", a.layouts,
                "what to compare with one rank: keys pp, v, ep, dp, schedule, mbs, as in "
                "\"pp=2,v=2;ep=2,dp=4\"; the ranks are threads")
      ->required()
      ->type_name("LIST");
  add_count(c, "--steps", a.steps, 1, 1000000, "training steps; 3 if not given");
  c->add_option("--tolerance", a.tolerance,
                "largest relative difference of a tensor; if not given, 1e-9 in float64, 1e-4 in float32")
      ->check(tolerance_fault, "")
      ->type_name("R");
  add_switch(c, "--json", a.json, "print JSON");
}

CLI::Option* add_world(CLI::App* command, std::optional<int>& world) {
  return add_count(command, "--world", world, 1, 1 << 20,
                   "ranks in all; as few as parallel allows if not given");
}

void add_plan(CLI::App& app, PlanArguments& a) {
  CLI::App* c = app.add_subcommand(
      "plan", "count parameters, memory, operations and messages of a run before anything is allocated");
  add_configuration(c, a.config);
  CLI::Option* world = add_world(c, a.world);
  c->add_option("--layouts", a.layouts,
                "several layouts side by side instead: keys pp, v, ep, dp, schedule, mbs, as in "
                "\"pp=2;ep=2,dp=4\"")
      ->excludes(world)
      ->type_name("LIST");
  add_switch(c, "--json", a.json, "print JSON");
}

void add_schedule(CLI::App& app, ScheduleArguments& a) {
  CLI::App* c = app.add_subcommand(
      "schedule", "print a pipeline schedule: what each rank does when, its bubble, what ranks hold");
  CLI::Option* file =
      c->add_option("CONFIG", a.config.file, "configuration file (JSON), instead of the four options below")
          ->type_name("");
  add_overrides(c, a.config)->needs(file);
  add_world(c, a.world)->needs(file);
  CLI::Option* kind =
      c->add_option("--schedule", a.schedule, "gpipe, 1f1b, interleaved or zero_bubble")->type_name("NAME");
  CLI::Option* ranks = add_count(c, "--pipeline", a.pipeline, 1, 1024, "ranks of the pipeline");
  CLI::Option* stages =
      add_count(c, "--virtual", a.virtual_stages, 1, 26, "stages of each rank; 1 if not given");
  CLI::Option* count =
      add_count(c, "--micro-batches", a.micro_batches, 1, 1 << 20, "micro-batches of a step");
  add_switch(c, "--json", a.json, "print JSON");
  // Not by excludes(): a word behind a misspelt option would be taken for CONFIG.
  c->final_callback([=] {
    for (const CLI::Option* other : {kind, ranks, stages, count})
      if (!file->empty() && !other->empty())
        throw CLI::ValidationError("CONFIG excludes " + other->get_name());
    for (const CLI::Option* needed : {kind, ranks, count})
      if (file->empty() && needed->empty())
        throw CLI::ValidationError(needed->get_name() + " or CONFIG is required");
  });
}

void add_bench(CLI::App& app, BenchArguments& a) {
  CLI::App* c = app.add_subcommand("bench", "time training steps against this machine's own peaks");
  c->require_subcommand(1);
  const auto add = [&](const char* name, const char* help) {
    CLI::App* one = c->add_subcommand(name, help);
    add_configuration(one, a.config);
    add_count(one, "--steps", a.steps, 1, 1000000, "timed steps, after one that is not; 3 if not given");
    add_switch(one, "--json", a.json, "print JSON");
    return one;
  };
  CLI::App* step = add("step", "whole steps, split by job and by phase");
  step->add_option("--residual", a.residuals, "residual connections to time the model with, in a list")
      ->delimiter(',')
      ->type_name("TYPES");
  step->add_option("--precision", a.precisions, "precisions to time it in, in a list")
      ->delimiter(',')
      ->type_name("TYPES");
  add("ops", "every job at the model's sizes: time, operations, bytes, share of the peak that binds it");
  add("compare", "two configurations in turns: the ratio of their steps with its spread")
      ->add_option("OTHER", a.other, "second configuration file (JSON)")
      ->required()
      ->type_name("");
}

void add_model(CLI::App* c, ModelArguments& a) {
  CLI::Option* file =
      c->add_option("--config", a.config.file, "configuration file (JSON)")->type_name("FILE");
  CLI::Option* weights =
      c->add_option("--weights", a.weights, "weights of the model (safetensors)")->type_name("FILE");
  file->needs(weights);
  weights->needs(file);
  c->add_option("--checkpoint", a.checkpoint,
                "instead of both: a checkpoint, or the newest in a folder of them or of a run")
      ->excludes(file)
      ->excludes(weights)
      ->type_name("FOLDER");
}

void require_model(const ModelArguments& a) {
  if (a.checkpoint.empty() && a.weights.empty())
    throw CLI::ValidationError("--checkpoint, or --config and --weights, is required");
}

void add_generate(CLI::App& app, GenerateArguments& a) {
  const auto is_whole = [](const std::string& text) {
    std::uint64_t n = 0;
    const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), n);
    return error == std::errc() && stop == text.data() + text.size() ? ""
                                                                     : text + " is not a whole number from 0";
  };
  CLI::App* c = app.add_subcommand("generate", "write on from a prompt");
  add_model(c, a);
  add_overrides(c, a.config);
  CLI::Option* prompt = c->add_option("--prompt", a.prompt, "text to go on from")->type_name("TEXT");
  c->add_option("--prompt-file", a.prompt_file, "file that holds it")->excludes(prompt)->type_name("FILE");
  add_count(c, "--max-new-tokens", a.max_new_tokens, 1, std::int64_t(1) << 40,
            "stop after so many; 128 if not given");
  c->add_option("--temperature", a.temperature,
                "divides the logits, 1 if not given; 0: the most probable token")
      ->type_name("R");
  c->add_option("--top-k", a.top_k, "choose among so many most probable tokens; 0: all")
      ->check(is_whole, "")
      ->type_name("N");
  c->add_option("--top-p", a.top_p, "choose among the most probable tokens that hold this share; 1: all")
      ->type_name("R");
  c->add_option("--seed", a.seed, "the same seed gives the same text; 0 if not given")
      ->check(is_whole, "")
      ->type_name("N");
  add_switch(c, "--json", a.json, "print text, token ids and times as JSON");
  c->final_callback([&a] {
    require_model(a);
    if (!a.prompt && a.prompt_file.empty())
      throw CLI::ValidationError("--prompt or --prompt-file is required");
  });
}

void add_eval(CLI::App& app, EvalArguments& a) {
  CLI::App* c = app.add_subcommand("eval", "loss, perplexity and bits per byte on validation sets");
  add_model(c, a);
  add_overrides(c, a.config);
  c->add_option("--data", a.data,
                "token files to evaluate on, or a name of data.validation alone; repeatable; without it, all "
                "of data.validation")
      ->type_name("NAME=PREFIX")
      ->allow_extra_args(false);
  add_count(c, "--iters", a.iterations, 1, std::int64_t(1) << 40,
            "batches of a set, as training.eval_iters; the whole set if not given");
  add_switch(c, "--json", a.json, "print JSON");
  c->final_callback([&a] { require_model(a); });
}

void add_prepare(CLI::App& app, PrepareArguments& a) {
  CLI::App* c = app.add_subcommand("prepare", "turn text and JSONL files into a token file to train on");
  c->add_option("INPUT", a.inputs, "files: .txt is one document, .jsonl has one a line")
      ->required()
      ->type_name("");
  c->add_option("--output", a.output, "prefix of the .bin and .idx to write (Megatron's format)")
      ->required()
      ->type_name("PREFIX");
  c->add_option("--tokenizer", a.tokenizer, "how text becomes token ids: byte")->type_name("NAME");
  c->add_option("--jsonl-key", a.jsonl_key, "key of the text in a line of JSONL; \"text\" if not given")
      ->type_name("KEY");
  c->add_flag("--append-eod,!--no-append-eod", a.append_eod,
              "end each document with the end-of-document token (as without either), or do not");
  add_count(c, "--workers", a.workers, 0, 1024, "threads; 0: one a core");
  add_switch(c, "--overwrite", a.overwrite, "replace files that are there");
}

void add_plot(CLI::App& app, PlotArguments& a) {
  CLI::App* c = app.add_subcommand("plot", "draw a run, or several against each other, as one HTML file");
  c->add_option("RUN", a.runs, "folders of runs, or files of metrics (JSONL)")->required()->type_name("");
  c->add_option("--out", a.out, "file to write (HTML)")->required()->type_name("FILE");
}

CLI::App* add_checkpoint(CLI::App& app, CheckpointArguments& a) {
  CLI::App* c =
      app.add_subcommand("checkpoint", "look into checkpoints, check that they are whole, convert models");
  c->require_subcommand(1);
  CLI::App* inspect =
      c->add_subcommand("inspect", "print what is in it: tensors, shapes, types, configuration");
  inspect->add_option("PATH", a.path, "checkpoint, folder of checkpoints, run's folder, or safetensors file")
      ->required()
      ->type_name("");
  add_switch(inspect, "--json", a.json, "print JSON");
  CLI::App* verify = c->add_subcommand("verify", "compare sizes and checksums; exit status 1 if damaged");
  verify->add_option("PATH", a.path, "checkpoint, folder of checkpoints, or run's folder")
      ->required()
      ->type_name("");
  return c;
}

void add_convert(CLI::App* checkpoint, ConvertArguments& a) {
  CLI::App* c = checkpoint->add_subcommand(
      "convert",
      "a model with other residual connections that computes the same, or to and from Hugging Face");
  c->add_option("FROM", a.from,
                "checkpoint, run's folder, converted model, or Hugging Face model (deepseek_v3, v2)")
      ->required()
      ->type_name("");
  c->add_option("--to", a.to, "folder to write")->required()->type_name("FOLDER");
  c->add_option("--format", a.format, "strata (as without it) or huggingface")
      ->check(CLI::IsMember({"strata", "huggingface"}))
      ->type_name("NAME");
  c->add_option("--residual", a.residual,
                "residual connections to give a vanilla model, as in model.residual.type; --set "
                "model.residual.KEY=VALUE sets more of them")
      ->type_name("TYPE");
  c->add_option("--set", a.overrides, "set a key of the result, of those that change no logit; repeatable")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  CLI::Option* dtype =
      c->add_option("--dtype", a.dtype, "of weights for huggingface: float32 (as without it) or bfloat16")
          ->check(CLI::IsMember({"float32", "bfloat16"}))
          ->type_name("NAME");
  CLI::Option* shard =
      c->add_option("--max-shard-gb", a.max_shard_gb, "largest file for huggingface; 5 if not given")
          ->type_name("GB");
  add_switch(c, "--overwrite", a.overwrite, "replace a converted model that is there");
  c->final_callback([&a, dtype, shard] {
    if (!(a.max_shard_gb > 0)) throw CLI::ValidationError("--max-shard-gb: a number above 0 is needed");
    if (a.format != "huggingface" && (!dtype->empty() || !shard->empty()))
      throw CLI::ValidationError("--dtype and --max-shard-gb need --format huggingface");
  });
}

}  // namespace

void add_commands(CLI::App& app, Arguments& a) {
  add_train(app, a.train);
  add_trace(app, a.trace);
  add_config(app, a.config);
  add_verify_layout(app, a.verify_layout);
  add_plan(app, a.plan);
  add_schedule(app, a.schedule);
  add_bench(app, a.bench);
  add_generate(app, a.generate);
  add_eval(app, a.eval);
  add_convert(add_checkpoint(app, a.checkpoint), a.convert);
  add_prepare(app, a.prepare);
  add_plot(app, a.plot);
}

}  // namespace strata::tools
